package account

import (
	"sync"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/process/notify"
)

// Standing records the answers of servers about the accounts of issuers. The controllers
// of a process share it: a refusal to one of them makes another one check the issuer. It
// is safe for concurrent use.
type Standing struct {
	subscribers notify.List[types.UID]

	mu        sync.Mutex // guards all below
	suspected map[types.UID]bool
	found     map[types.UID]bool
}

// NewStanding returns a Standing without accounts.
func NewStanding() *Standing {
	return &Standing{suspected: map[types.UID]bool{}, found: map[types.UID]bool{}}
}

// Suspect records that the server does not accept the account of an issuer. The issuer is
// then checked, and the check asks the server.
func (s *Standing) Suspect(issuer cmv1.GenericIssuer) {
	if s.suspect(issuer.GetUID()) {
		s.subscribers.Tell(issuer.GetUID())
	}
}

func (s *Standing) suspect(uid types.UID) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspected[uid] || len(s.suspected) >= maxKnown {
		return false
	}
	s.suspected[uid] = true
	return true
}

// Suspected reports whether the account of an issuer is suspected.
func (s *Standing) Suspected(issuer cmv1.GenericIssuer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspected[issuer.GetUID()]
}

// Checked ends a suspicion: the server was asked about the account. found is set if it has
// the account with the key in the Secret.
func (s *Standing) Checked(issuer cmv1.GenericIssuer, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.suspected, issuer.GetUID())
	if !found {
		delete(s.found, issuer.GetUID())
		return
	}
	if len(s.found) >= maxKnown {
		clear(s.found)
	}
	s.found[issuer.GetUID()] = true
}

// Found reports whether this process has found the account of an issuer with the
// key in the Secret.
func (s *Standing) Found(issuer cmv1.GenericIssuer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found[issuer.GetUID()]
}

// Subscribe registers changed, which is called with each issuer whose account
// becomes suspected. It must return quickly. cancel ends that.
func (s *Standing) Subscribe(changed func(issuer types.UID)) (cancel func()) {
	return s.subscribers.Subscribe(changed)
}
