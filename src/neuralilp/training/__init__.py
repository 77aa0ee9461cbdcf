"""Training runs: the loop on Lightning Fabric, checkpoints, run folders, records."""

from neuralilp.training.curves import read_curves as read_curves
from neuralilp.training.folder import RunFolder as RunFolder
from neuralilp.training.loop import train as train
from neuralilp.training.plan import Outcome as Outcome
from neuralilp.training.plan import Schedule as Schedule
from neuralilp.training.plan import Standing as Standing
from neuralilp.training.plan import Stopped as Stopped
from neuralilp.training.progress import Report as Report
from neuralilp.training.progress import progress as progress
from neuralilp.training.record import fingerprint as fingerprint
from neuralilp.training.record import make_record as make_record
from neuralilp.training.record import read_record as read_record
from neuralilp.training.record import write_record as write_record
from neuralilp.training.schedules import one_cycle as one_cycle
from neuralilp.training.schedules import triangular as triangular
