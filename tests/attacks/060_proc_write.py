# must: no kernel setting and no own /proc file can be opened for writing
# control: breach: plain python opens its own, root also the settings (nothing is written)
import os
for path in ('/proc/sys/kernel/core_pattern', '/proc/sys/kernel/hostname', '/proc/sys/vm/drop_caches', '/proc/sysrq-trigger', '/proc/self/oom_score_adj', '/proc/self/mem', '/proc/self/uid_map', '/proc/self/coredump_filter', '/proc/self/attr/current', '/proc/self/comm', '/sys/kernel/mm/transparent_hugepage/enabled', '/sys/fs/cgroup/cgroup.procs', '/sys/power/state', '/proc/@PPID@/oom_score_adj', '/proc/@PPID@/comm'):
    try:
        os.close(os.open(path, os.O_WRONLY))
        print('BREACH opened', path)
    except OSError as error:
        print(path, type(error).__name__)
