from django.urls import path

from apps.console.views import policies

app_name = "policies"
urlpatterns = [
    path("", policies.index, name="list"),
    path("new/", policies.create, name="create"),
    path("<int:policy_id>/", policies.policy, name="policy"),
    path("<int:policy_id>/state/", policies.state, name="state"),
    path("<int:policy_id>/publish/", policies.publish, name="publish"),
    path("<int:policy_id>/groups/", policies.assign, name="assign"),
    path("<int:policy_id>/groups/leave/", policies.unassign, name="unassign"),
]
