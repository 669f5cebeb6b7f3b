"""templatefix: chat templates whose history is the text that the model wrote."""

__version__ = "0.1.0"
