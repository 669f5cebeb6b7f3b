"""The four-turn figure: what of every prompt was cached, before and after a repair.

It is laid out once, as values (``reuse``, ``layout``), and drawn three ways. The SVG is written by
a Jinja template of our own: inside a page it has to follow the page's colours, in light and dark,
and to be read on a phone, which the fixed colours and sizes of a plotting library's SVG do not do.
A PNG needs fonts and a rasteriser, which matplotlib brings; it is optional for its size. The
terminal gets bars of block characters.
"""
