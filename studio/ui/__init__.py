"""The page. Gradio is imported only here and in app.py."""
