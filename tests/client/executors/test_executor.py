from dynamite_fl.client.executors import stacked
from dynamite_fl.client.executors.executor import Executor, InProcess
from dynamite_fl.client.executors.one_by_one import run_one_by_one
from dynamite_fl.client.messages import ClientState, Order
from dynamite_fl.simulation.engine import SimulatedEngine
from tests.trainings import digits, training


def test_executors_in_this_process_reply_in_the_order_given_and_keep_nothing() -> None:
    engine = training(model="perceptron").engine
    assert isinstance(engine, SimulatedEngine)
    weights = engine.first_weights()
    orders = [
        Order(client, 1, weights, 2, 8, learning_rate=0.1, probe=True, remember=True)
        for client in (3, 0)
    ]
    for run_clients in (run_one_by_one, stacked.run_stacked):
        executor: Executor = InProcess(engine.clients.make, run_clients)
        replies = executor.run_round(orders, [ClientState()] * 2)
        sizes = engine.partition.sizes
        assert [reply.samples for reply in replies] == [sizes[3], sizes[0]]
        assert all(reply.state.memory is not None for reply in replies)
        executor.keep([3, 0])
        assert executor.take_states() == {}
        executor.close()
    assert len(digits().train) == sum(sizes)
