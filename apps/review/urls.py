from django.urls import path

from apps.review.views import appeals, desk, evidence, figures, history, keys, saved_views

app_name = "review"
urlpatterns = [
    path("", desk.queue, name="queue"),
    path("rows/", desk.rows, name="rows"),
    path("next/", desk.take_next, name="next"),
    path("skips/forget/", desk.look_again, name="look-again"),
    path("items/<int:item_id>/", desk.item, name="item"),
    path("items/<int:item_id>/look/", desk.look, name="look"),
    path("items/<int:item_id>/spans/", evidence.spans, name="spans"),
    path("items/<int:item_id>/conversation/", evidence.conversation, name="conversation"),
    path("items/<int:item_id>/open/", desk.take, name="take"),
    path("items/<int:item_id>/decide/", desk.decide, name="decide"),
    path("items/<int:item_id>/appeal/", appeals.decide, name="decide-appeal"),
    path("items/<int:item_id>/recall/", desk.recall, name="recall"),
    path("items/<int:item_id>/skip/", desk.skip, name="skip"),
    path("items/<int:item_id>/escalate/", desk.escalate, name="escalate"),
    path("items/<int:item_id>/extend/", desk.extend, name="extend"),
    path("items/<int:item_id>/release/", desk.release, name="release"),
    path("views/", saved_views.save, name="save-view"),
    path("views/<int:view_id>/forget/", saved_views.forget, name="forget-view"),
    path("keys/", keys.show_keys, name="keys"),
    path("keys/reset/", keys.reset, name="reset-keys"),
    path("figures/", figures.show_figures, name="figures"),
    path("appeals/", appeals.show, name="appeals"),
    path("decisions/<int:decision_id>/appeal/", appeals.enter, name="enter-appeal"),
    path("history/", history.history, name="history"),
    path("decisions/<int:decision_id>/reverse/", history.reverse, name="reverse"),
    path("decisions/<int:decision_id>/undo/", desk.undo, name="undo"),
]
