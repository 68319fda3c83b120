"""Workers: take a job from the queue, run its flow, write down what happened, tell the queue."""

from pyoco_server.worker.worker import PyocoNatsWorker

__all__ = ["PyocoNatsWorker"]
