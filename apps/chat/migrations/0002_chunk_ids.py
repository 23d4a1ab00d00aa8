from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("chat", "0001_initial")]
    operations = [
        # One number a chunk; message ids are that number shifted left by CHUNK_ID_BITS.
        migrations.RunSQL(
            "CREATE SEQUENCE chat_chunk_number CACHE 1", "DROP SEQUENCE chat_chunk_number"
        )
    ]
