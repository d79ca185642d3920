package ca

import (
	"sync"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/signer/issuer"
)

// opened keeps the CAs that are in use, because to open one can take longer
// than to sign with it, and why one cannot be used, because that takes as long
// and is asked for as often. Each is opened once, whoever waits for it, and
// nobody waits for somebody else's. It is safe for concurrent use.
type opened struct {
	// open is issuer.OpenCA.
	open func(name string, secret *corev1.Secret) (*pki.Authority, error)

	opening singleflight.Group

	mu  sync.Mutex
	cas map[types.NamespacedName]kept // mu guards it
}

// kept is what has come of a version of a Secret.
type kept struct {
	uid       types.UID
	version   string
	authority *pki.Authority
	err       error
}

// maxOpened bounds how many CAs are kept; beyond it all are opened again.
const maxOpened = 1000

func newOpened() *opened {
	return &opened{open: issuer.OpenCA, cas: map[types.NamespacedName]kept{}}
}

// get returns the CA in a Secret, which is nil if it does not exist.
func (o *opened) get(name types.NamespacedName, secret *corev1.Secret) (*pki.Authority, error) {
	if secret == nil {
		o.put(name, nil)
		return o.open(name.String(), nil)
	}
	if known, ok := o.known(name, secret); ok {
		return known.authority, known.err
	}
	version := name.String() + "/" + string(secret.UID) + "/" + secret.ResourceVersion
	opening, _, _ := o.opening.Do(version, func() (any, error) {
		if known, ok := o.known(name, secret); ok { // since we have looked
			return known, nil
		}
		authority, err := o.open(name.String(), secret)
		made := kept{secret.UID, secret.ResourceVersion, authority, err}
		o.put(name, &made)
		return made, nil
	})
	found := opening.(kept)
	return found.authority, found.err
}

func (o *opened) known(name types.NamespacedName, secret *corev1.Secret) (kept, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known, ok := o.cas[name]
	return known, ok && known.uid == secret.UID && known.version == secret.ResourceVersion
}

// put keeps what has come of a Secret; nil forgets it.
func (o *opened) put(name types.NamespacedName, made *kept) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.cas, name)
	if made == nil {
		return
	}
	if len(o.cas) >= maxOpened {
		clear(o.cas)
	}
	o.cas[name] = *made
}
