"""SearchQA as an environment: a question, a search engine, and an answer."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

from rllib_gigpo.columns import SERVICE_FAILURE, SERVICE_FAILURE_DETAILS
from rllib_gigpo.env_adapters.generated_tasks import TASKS, GeneratedTaskEnv, check_choice, check_integer
from rllib_gigpo.env_adapters.search_qa.data import PathLike, questions_of, retriever_of, say_that_data_is_made_up
from rllib_gigpo.env_adapters.search_qa.generated_questions import HOPS
from rllib_gigpo.env_adapters.search_qa.information import NO_ANSWER, information
from rllib_gigpo.env_adapters.search_qa.questions import Question
from rllib_gigpo.env_adapters.search_qa.responses import act_of
from rllib_gigpo.env_adapters.search_qa.scores import exact_match, f1_score
from rllib_gigpo.retrieval.client import ServerAddress
from rllib_gigpo.retrieval.passages import RetrievalFailure

SUCCESS_REWARD = 1.0
INVALID = (
    "That was no valid action. To search, put the query between <search> and </search>; to answer, put the answer "
    "between <answer> and </answer>."
)


class AnyText(spaces.Text):
    """All texts up to a length: passages and questions may hold any character."""

    def __init__(self, max_length: int):
        super().__init__(max_length, min_length=0)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length


class SearchQA(GeneratedTaskEnv[str]):
    """A question that takes a search engine to answer, in the settings of Search-R1 (arXiv 2503.09516).

    Observation: text. First the question; after a search the passages that were found, in `<information>` tags; after
    an invalid action, what a valid one is like; after an answer, the answer.

    Action: text, "<search>query</search>" or "<answer>answer</answer>". Any other text, "" included, is a no-op: the
    step counts.

    Reward: 1 for an answer that equals one of the golden answers, both without articles, punctuation and upper case; 0
    for everything else. An answer terminates, `max_steps` truncates.

    A task is the number of a question: those below 2**31, which training plays, go round `data`, those from there on,
    which the evaluation panel plays, round `evaluation_data`.

    Where the search engine does not answer, the episode is truncated, and the info has `service_failure`, the cause,
    and `service_failure_details`. Such a trajectory leaves its group and is counted.

    Infos hold `won`, `task_id`, `task_type` (the data source), `task_description` (the question) and `golden_answers`;
    after a step `is_action_valid`, after a search `num_passages` and `passages_cut`, after an answer `exact_match`,
    `f1`.

    Args:
        data: Questions, a .jsonl or .parquet file in Search-R1's columns; see `read_questions`. None: made-up ones.
        evaluation_data: The same, for evaluation. None: those of `data`; of the made-up ones, others than in training.
        retriever_url: Of a retrieval server.
        retriever_dialect: How it is asked, "search-r1" or "verl-agent".
        retriever_timeout_s: For one attempt to ask it, in seconds.
        retriever_retries: Attempts after the first. With `env_workers`, all of them together, and the delays of up to
            12 s between them, must take less than `env_step_timeout_s`.
        corpus: Instead of a server: a JSONL file of passages that is searched by words in this process. Without either,
            the passages of the made-up world are.
        topk: Passages a search shows.
        max_steps: Steps after which an episode is truncated.
        max_passage_characters: What of a longer passage is shown.
        hops: Of made-up questions, how many passages it takes to find the answer: 1, 2 or 3.

    Raises:
        ImportError: The extra `search` is not installed.
        FileNotFoundError: A file is not there.
        ValueError: An option has a value that is not allowed, or a file does not hold what it should.
    """

    example_action = "<search>Velford</search>"

    def __init__(
        self,
        *,
        data: PathLike | None = None,
        evaluation_data: PathLike | None = None,
        retriever_url: str | None = None,
        retriever_dialect: str = "search-r1",
        retriever_timeout_s: float = 30.0,
        retriever_retries: int = 3,
        corpus: PathLike | None = None,
        topk: int = 3,
        max_steps: int = 4,
        max_passage_characters: int = 4000,
        hops: int = 1,
    ):
        super().__init__(max_steps=max_steps)
        check_integer("topk", topk, lowest=1, highest=100)
        check_integer("max_passage_characters", max_passage_characters, lowest=1)
        check_choice("hops", hops, HOPS)
        if data is not None and hops != 1:
            raise ValueError(f"hops is {hops}, which is for made-up questions, but the questions come from {data}")
        # Also without a server: a wrong option is an error, whether it is used or not.
        url = "http://127.0.0.1:8000" if retriever_url is None else retriever_url
        address = ServerAddress(url, retriever_dialect, retriever_timeout_s, retriever_retries)
        server = None if retriever_url is None else address
        self._train, self._evaluation = questions_of(data, evaluation_data, hops=hops)
        self._retriever = retriever_of(corpus, server, made_up_questions=data is None)
        if data is None:
            say_that_data_is_made_up()
        longest_question = max(len(question.text) for question in (*self._train, *self._evaluation))
        longest_information = topk * (max_passage_characters + 100) + 100
        self.observation_space = AnyText(max(longest_question, longest_information, 20_000))
        self.action_space = AnyText(20_000)
        self._topk = topk
        self._max_passage_characters = max_passage_characters
        self._question: Question | None = None
        self._shown = ""
        self._won = False

    def _set_up(self, task: int) -> None:
        questions = self._train if task < TASKS else self._evaluation
        self._question = questions[task % TASKS % len(questions)]
        self._shown = self._question.text
        self._won = False

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Searches, answers, or does nothing.

        Raises:
            TypeError: The action is not a text.
            RuntimeError: The environment was never reset.
        """
        self._check_action(action)
        question: Question = self._started(self._question)
        act = act_of(action)
        self._steps += 1
        terminated = False
        told: dict[str, Any] = {}
        if act is None:
            self._shown = INVALID
        elif act.kind == "search":
            told = self._search(act.text)
        else:
            self._shown = f"<answer>{act.text}</answer>"
            self._won = exact_match(act.text, question.golden_answers)
            told = {"exact_match": self._won, "f1": f1_score(act.text, question.golden_answers)}
            terminated = True
        truncated = not terminated and (self._steps >= self._max_steps or SERVICE_FAILURE in told)
        info = {**self._info(), "is_action_valid": act is not None, **told}
        return self._observation(), SUCCESS_REWARD if self._won else 0.0, terminated, truncated, info

    def _search(self, query: str) -> dict[str, Any]:
        """What the info is told about a search."""
        try:
            passages = self._retriever.search(query, self._topk)
        except RetrievalFailure as failure:
            self._shown = NO_ANSWER
            return {SERVICE_FAILURE: failure.cause, SERVICE_FAILURE_DETAILS: str(failure)}
        self._shown, num_cut = information(passages, max_passage_characters=self._max_passage_characters)
        return {"num_passages": len(passages), "passages_cut": num_cut}

    def _observation(self) -> str:
        return self._shown

    def _info(self) -> dict[str, Any]:
        question: Question = self._started(self._question)
        return {
            "won": self._won,
            "task_id": question.id,
            "task_type": question.data_source,
            "task_description": question.text,
            "golden_answers": list(question.golden_answers),
        }
