package revocation

import (
	"crypto/x509"
	"strings"
	"time"
)

// firstListIn is how long the first list of a CA is awaited: it is signed within two seconds.
const firstListIn = 5 * time.Second

// URL returns where everybody gets the list of a CA; empty if nowhere.
func (l *Lists) URL(id string) string {
	if l.Base == "" {
		return ""
	}
	return strings.TrimSuffix(l.Base, "/") + "/" + id + ".crl"
}

// URLOf returns the URL of a CA's list once there is a list, so that no certificate names one
// that nobody can get. The list of a CA that was made a moment ago is awaited for some seconds,
// counted from the first call; after that, it returns "" at once until there is one.
func (l *Lists) URLOf(ca *x509.Certificate, now time.Time) string {
	id := ListID(ca)
	var late <-chan time.Time
	for {
		changed := l.Changed()
		if list := l.Get(id); list != nil && list.Last != nil {
			return l.URL(id)
		}
		if late == nil {
			late = time.After(l.awaitUntil(id, now).Sub(now))
		}
		select {
		case <-changed:
		case <-late:
			return ""
		}
	}
}

func (l *Lists) awaitUntil(id string, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.awaited[id].IsZero() || now.Add(firstListIn).Before(l.awaited[id]) { // the clock was ahead
		l.awaited[id] = now.Add(firstListIn)
	}
	return l.awaited[id]
}
