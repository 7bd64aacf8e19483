"""The page. Gradio is imported only here."""
