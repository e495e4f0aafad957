# must: own limits can't be raised
# control: breach: plain python raises its soft limits to the hard ones
import resource
for name in ('AS', 'CPU', 'FSIZE', 'NOFILE', 'NPROC', 'CORE', 'DATA', 'MEMLOCK', 'MSGQUEUE', 'SIGPENDING', 'NICE', 'RTPRIO'):
    kind = getattr(resource, 'RLIMIT_' + name)
    soft, hard = resource.getrlimit(kind)
    for wanted in ((hard, hard), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)):
        try:
            resource.setrlimit(kind, wanted)
        except (OSError, ValueError) as error:
            print(name, type(error).__name__)
    now = resource.getrlimit(kind)
    more = [a if a != -1 else float('inf') for a in now] > [a if a != -1 else float('inf') for a in (soft, hard)]
    if more and name != 'CPU':
        print('BREACH raised', name, (soft, hard), now)
