"""Recorded traffic: requests that a server has seen, joined to conversations and replayed.

``lines`` and ``shapes`` read a recording, ``joining`` finds the request that another one continues,
``speaking`` says what the model wrote, ``changes`` what the client did otherwise than a faithful
one, ``pricing`` whose each lost token is, and ``traffic`` walks through the file.
"""
