"""Redis Streams that every region can write: active-active, conflict-free, durable."""

from crdtstream import compiled

compiled.choose()
