from django.db import migrations


def make_releases(apps, schema_editor):
    release = apps.get_model("releases", "Release")
    release.objects.create(
        kind="model", model_name="moderation", model_version="1", is_active=True
    )
    release.objects.create(kind="rules", model_name="rules", model_version="1", is_active=True)


class Migration(migrations.Migration):
    dependencies = [("releases", "0001_initial")]
    operations = [migrations.RunPython(make_releases, migrations.RunPython.noop)]
