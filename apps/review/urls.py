from django.urls import path

from apps.review import views

app_name = "review"
urlpatterns = [
    path("", views.queue, name="queue"),
    path("rows/", views.rows, name="rows"),
    path("next/", views.take_next, name="next"),
    path("skips/forget/", views.look_again, name="look-again"),
    path("items/<int:item_id>/", views.item, name="item"),
    path("items/<int:item_id>/look/", views.look, name="look"),
    path("items/<int:item_id>/open/", views.take, name="take"),
    path("items/<int:item_id>/decide/", views.decide, name="decide"),
    path("items/<int:item_id>/skip/", views.skip, name="skip"),
    path("items/<int:item_id>/escalate/", views.escalate, name="escalate"),
    path("items/<int:item_id>/extend/", views.extend, name="extend"),
    path("items/<int:item_id>/release/", views.release, name="release"),
    path("figures/", views.show_figures, name="figures"),
    path("history/", views.history, name="history"),
    path("decisions/<int:decision_id>/reverse/", views.reverse, name="reverse"),
    path("decisions/<int:decision_id>/undo/", views.undo, name="undo"),
]
