package ca

import (
	"sync"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/pki"
)

// opened caches the CAs that are in use, because opening one can take longer
// than signing with it. It also caches why a CA cannot be used, because finding
// that takes as long and is needed as often. Each CA is opened once, no matter
// how many callers wait for it, and no caller waits for another CA. It is safe
// for concurrent use.
type opened struct {
	// open is Open.
	open func(name string, secret *corev1.Secret) (*pki.Authority, error)

	opening singleflight.Group

	mu  sync.Mutex
	cas map[types.NamespacedName]kept // mu guards it
}

// kept is the result for one version of a Secret.
type kept struct {
	uid       types.UID
	version   string
	authority *pki.Authority
	err       error
}

// maxOpened limits how many CAs are cached; beyond it the cache is cleared.
const maxOpened = 1000

func newOpened() *opened {
	return &opened{open: Open, cas: map[types.NamespacedName]kept{}}
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
		if known, ok := o.known(name, secret); ok { // another caller was faster
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

// put caches the result for a Secret; nil removes it.
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
