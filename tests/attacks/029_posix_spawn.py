# must: posix_spawn (vfork inside libc) starts nothing
# control: breach: plain python spawns echo
import os, sys
try:
    pid = os.posix_spawn('/bin/echo', ['echo', 'BREACH spawned'], {}, file_actions=[])
    print('pid', os.waitpid(pid, 0)[1])
except OSError as error:
    print(type(error).__name__)
