"""A small environment that keeps the contract, and subclasses of which each breaks one rule of it."""

from __future__ import annotations

import random
import string
import threading
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

PRINTABLE = frozenset(string.printable)


class Corridor(gym.Env[Any, str]):
    """Walk "left" or "right" from 0 to the task's door, 4 to 9 places away; 12 steps."""

    max_steps = 12

    def __init__(self, config: Any = None):
        self.observation_space: spaces.Space[Any] = spaces.Text(60, charset=PRINTABLE)
        self.action_space: spaces.Space[Any] = spaces.Text(60, charset=PRINTABLE)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        task = (options or {}).get("task")
        self.task = int(self.np_random.integers(100)) if task is None else int(task)
        self.door = (4 + self.task % 6) * (1 if self.task // 6 % 2 else -1)
        self.place = self.steps = 0
        return self.shown(), self.info()

    def step(self, action: str) -> Any:
        is_valid = action in self.actions()
        if is_valid:
            self.place += 1 if action == "right" else -1
        self.steps += 1
        won = self.place == self.door
        truncated = self.steps >= self.max_steps and not won
        return self.shown(), self.reward(won), won, truncated, {**self.info(), "is_action_valid": is_valid}

    def actions(self) -> list[str]:
        return ["left", "right"]

    def shown(self) -> Any:
        return f"You are at {self.place}, the door is at {self.door}."

    def reward(self, won: bool) -> Any:
        return float(won)

    def info(self) -> dict[str, Any]:
        won = self.place == self.door
        return {"won": won, "task_id": f"corridor {self.task}", "admissible_actions": self.actions()}


class Picture(Corridor):
    """Keeps the contract: shows a picture and a caption."""

    def __init__(self, config: Any = None):
        super().__init__(config)
        image = spaces.Box(0, 255, (4, 32, 3), np.uint8)
        self.observation_space = spaces.Dict({"text": spaces.Text(60, min_length=0, charset=PRINTABLE), "image": image})

    def shown(self) -> Any:
        image = np.zeros((4, 32, 3), np.uint8)
        image[:, 16 + self.door] = 255
        image[0, 16 + self.place] = 128
        return {"text": "", "image": image}


class DefaultCharset(Corridor):
    def __init__(self, config: Any = None):
        super().__init__(config)
        self.observation_space = spaces.Text(60)


class ArrayObservation(Picture):
    def __init__(self, config: Any = None):
        super().__init__(config)
        self.observation_space = spaces.Dict({"picture": spaces.Box(0, 255, (4, 32, 3), np.uint8)})


class SeedIsIgnored(Corridor):
    """Without a task, which only Gymnasium's checker tries, the start is another one each time."""

    count = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.count += 1
        return super().reset(seed=seed, options=options or {"task": self.count})


class CountsEpisodes(Corridor):
    episode = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.episode += bool(options)  # Gymnasium's checker, without a task, does not see it
        return super().reset(seed=seed, options=options)

    def shown(self) -> Any:
        return f"{super().shown()} Episode {self.episode}"


class CountsObjects(Corridor):
    objects = 0

    def __init__(self, config: Any = None):
        super().__init__(config)
        CountsObjects.objects += 1
        self.number = CountsObjects.objects

    def shown(self) -> Any:
        return f"{super().shown()} Room {self.number}"


class FewDoors(Corridor):
    """Doors are scarce: with more than three corridors open at once there is none for the others."""

    open_now: ClassVar[list[FewDoors]] = []

    def __init__(self, config: Any = None):
        super().__init__(config)
        FewDoors.open_now.append(self)

    def shown(self) -> Any:
        place = FewDoors.open_now.index(self) if self in FewDoors.open_now else 0
        return super().shown() if place < 4 else "There is no door."

    def close(self) -> None:
        if self in FewDoors.open_now:
            FewDoors.open_now.remove(self)


class SaltedHash(Corridor):
    def shown(self) -> Any:
        return f"{super().shown()} Code {hash(f'door {self.door}') % 10_000}"


class OneStart(Corridor):
    def shown(self) -> Any:
        return f"You are at {self.place}."


class NoWon(Corridor):
    def info(self) -> dict[str, Any]:
        return {key: value for key, value in super().info().items() if key != "won"}


class WonIsANumber(Corridor):
    def info(self) -> dict[str, Any]:
        return super().info() | {"won": 0.0}


class AnchorAtTimes(Corridor):
    def info(self) -> dict[str, Any]:
        return super().info() | ({"anchor_state": str(self.place)} if self.steps % 2 else {})


class AnchorIsAList(Corridor):
    def info(self) -> dict[str, Any]:
        return super().info() | {"anchor_state": [self.place]}


class RaisesOnNonsense(Corridor):
    def step(self, action: str) -> Any:
        if action and action not in self.actions() and options_of(action):
            raise ValueError(f"unknown action {action!r}")
        return super().step(action)


def options_of(action: str) -> bool:
    """Whether an action is of the doctor's nonsense; Gymnasium's checker samples others."""
    return "xyzzy" in action


class FreeInvalidActions(Corridor):
    def step(self, action: str) -> Any:
        self.steps -= action == ""
        return super().step(action)


class WrongAdmissible(Corridor):
    def info(self) -> dict[str, Any]:
        return super().info() | {"admissible_actions": ["left", "right", "jump"]}


class InfiniteReward(Corridor):
    def reward(self, won: bool) -> Any:
        return float("-inf") if self.place == 2 else 0.0


class Endless(Corridor):
    max_steps = 10**9

    def info(self) -> dict[str, Any]:
        return super().info() | {"admissible_actions": ["left"] if self.place > 0 else ["right"]}


class LimitIsTerminated(Corridor):
    def step(self, action: str) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, False, info


class OnceOnly(Corridor):
    is_over = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if self.is_over:
            raise RuntimeError("the game is over")
        return super().reset(seed=seed, options=options)

    def step(self, action: str) -> Any:
        answer = super().step(action)
        self.is_over = answer[2] or answer[3]
        return answer


class RaisesAtATask(Corridor):
    def step(self, action: str) -> Any:
        raise ConnectionError("no game server")


class OneObjectOnly(Corridor):
    is_alive = False

    def __init__(self, config: Any = None):
        super().__init__(config)
        if OneObjectOnly.is_alive:
            raise OSError("the port is taken")
        OneObjectOnly.is_alive = True

    def close(self) -> None:
        OneObjectOnly.is_alive = False


class GlobalRandom(Corridor):
    def step(self, action: str) -> Any:
        random.random()
        return super().step(action)


class GlobalNumpy(Corridor):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        np.random.seed(seed)
        return super().reset(seed=seed, options=options)


class LockInInfo(Corridor):
    lock = threading.Lock()  # one for all: Gymnasium's checker compares infos

    def info(self) -> dict[str, Any]:
        return super().info() | {"game": self.lock}


class KeepsFiles(Corridor):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.files = [open(__file__) for _ in range(2)]  # noqa: SIM115 (left open on purpose)
        return super().reset(seed=seed, options=options)


class CloseRaises(Corridor):
    is_closed = False

    def close(self) -> None:
        if self.is_closed:
            raise RuntimeError("closed already")
        self.is_closed = True


class Leaks(Corridor):
    def __init__(self, config: Any = None):
        super().__init__(config)
        self.past: list[bytes] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.past.append(bytes(bytearray(range(256)) * 4096))  # 1 MiB of pages that are really there
        return super().reset(seed=seed, options=options)
