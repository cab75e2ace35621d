"""The messages of the policy server's protocol: questions, answers, and what is around them."""

from windlass_client.policyv1.server_pb2 import *
from windlass_client.policyv1.slots_pb2 import *
