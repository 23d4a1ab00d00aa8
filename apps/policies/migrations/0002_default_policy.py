from django.db import migrations

THRESHOLDS = {"spam": (0.5, 0.9), "toxic": (0.5, 0.9), "ad": (0.6, 0.95)}


def make_default_policy(apps, schema_editor):
    policy = apps.get_model("policies", "Policy").objects.create(name="Default", is_default=True)
    version = apps.get_model("policies", "PolicyVersion").objects.create(
        policy=policy, number=1, note="Thresholds the product ships with"
    )
    threshold = apps.get_model("policies", "Threshold")
    for label, (hold, remove) in THRESHOLDS.items():
        threshold.objects.create(version=version, label=label, hold=hold, remove=remove)


class Migration(migrations.Migration):
    dependencies = [("policies", "0001_initial")]
    operations = [migrations.RunPython(make_default_policy, migrations.RunPython.noop)]
