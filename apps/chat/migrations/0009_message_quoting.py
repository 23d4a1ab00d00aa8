from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):

    # Messages go on coming in meanwhile, whatever the size of the table.
    atomic = False

    dependencies = [
        ('chat', '0008_erasure'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='message',
            index=models.Index(condition=models.Q(models.Q(('reply_to', ''), _negated=True), models.Q(('quoted_text', ''), _negated=True)), fields=['group', 'reply_to'], name='message_quoting'),
        ),
    ]
