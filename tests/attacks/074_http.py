# must: HTTP libraries fail at once, not after a time-out
# control: breach: plain python reaches the listener
# expect: ok error killed
import http.client, urllib.request
def asked():
    c = http.client.HTTPConnection('127.0.0.1', @PORT@, timeout=1)
    c.request('GET', '/stolen')
for act in (asked, lambda: urllib.request.urlopen('http://127.0.0.1:@PORT@/stolen', timeout=1)):
    try:
        act()
    except OSError as error:
        print(type(error).__name__, error)
