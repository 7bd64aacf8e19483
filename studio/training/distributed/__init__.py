"""Several processes and machines that train one model."""
