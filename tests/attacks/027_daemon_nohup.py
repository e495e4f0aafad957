# must: no shell, and no background job of one
# control: leaves: the job of plain python lives on
import os
code = os.system('cp /bin/sleep ./tir-left; nohup ./tir-left 4 >/dev/null 2>&1 &')
print('shell gave', code)
