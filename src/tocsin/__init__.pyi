from tocsin.app import Context as Context
from tocsin.app import Fail as Fail
from tocsin.app import Retry as Retry
from tocsin.app import Worker as Worker

__version__: str
