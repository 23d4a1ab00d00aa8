from django.db import migrations, models

# Of each thing the newest event, unless it says that the thing is over; of deployments the newest.
_MARK = """
UPDATE dashboard_operationalevent SET is_standing = true
WHERE id IN (
  SELECT DISTINCT ON (kind, CASE WHEN kind = 'deploy' THEN '' ELSE subject END) id
  FROM dashboard_operationalevent
  ORDER BY kind, CASE WHEN kind = 'deploy' THEN '' ELSE subject END, at DESC, id DESC
) AND state NOT IN ('stopped', 'left', 'over')
"""


class Migration(migrations.Migration):

    dependencies = [
        ("dashboard", "0005_more_events"),
    ]

    operations = [
        migrations.AddField(
            model_name="operationalevent",
            name="is_standing",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.RunSQL(_MARK, migrations.RunSQL.noop),
        migrations.RemoveIndex(
            model_name="operationalevent",
            name="operational_event_latest",
        ),
        migrations.AddIndex(
            model_name="operationalevent",
            index=models.Index(
                condition=models.Q(("is_standing", True)),
                fields=["kind", "subject"],
                name="operational_event_standing",
            ),
        ),
    ]
