"""A child process in which all work on templates is done, under limits that no template can escape.

The design names a worker that renders; this one does the whole work on a target, since what traces,
blames, searches and repairs runs template code as well, thousands of times, and would otherwise
send each piece of it across. The child is forked before anything starts threads, or a program of
its own where there is no fork; it is used for target after target, and is started again after a
template had it killed.

>>> with Worker(Limits(seconds=5)) as worker:
...     reports = list(worker.check(Job("model/chat_template.jinja")))  # doctest: +SKIP
"""

from templatefix.limits import Limits
from templatefix.worker.crew import Crew, cores
from templatefix.worker.job import Content, Job, Outcome
from templatefix.worker.parent import Worker

__all__ = ["Content", "Crew", "Job", "Limits", "Outcome", "Worker", "cores"]
