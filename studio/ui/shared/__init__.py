"""What several tabs are made of: forms, views, charts, texts in three languages."""
