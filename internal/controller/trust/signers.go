package trust

import (
	"context"
	"crypto/x509"
	"slices"
	"time"
)

// signer returns the current state of the named signer.
func (p *publisher) signer(name string) (Signer, bool) {
	for _, signer := range p.signers() {
		if signer.Name == name {
			return signer, true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	signer, gone := p.removed[name]
	return signer, gone
}

// signers returns the present signers.
func (p *publisher) signers() []Signer {
	if p.More == nil {
		return p.Signers
	}
	return append(slices.Clip(p.Signers), p.More()...)
}

// signerRoots is the result of a check of a signer.
type signerRoots struct {
	Signer
	roots []*x509.Certificate
}

// watchSigners queues the signers that come, go, or have changed roots.
func (p *publisher) watchSigners(ctx context.Context, q queue) {
	known := map[string]signerRoots{}
	ticker := time.NewTicker(lookMore)
	defer ticker.Stop()
	for {
		now := map[string]signerRoots{}
		for _, signer := range p.More() {
			found := signerRoots{signer, signer.Roots()}
			now[signer.Name] = found
			if before, ok := known[signer.Name]; !ok || !slices.EqualFunc(before.roots, found.roots, (*x509.Certificate).Equal) || !slices.Equal(before.Distrusted, found.Distrusted) {
				p.signerAdded(signer)
				q.Add(requestFor(signer))
			}
		}
		for name, before := range known {
			if _, there := now[name]; !there {
				p.signerRemoved(before.Signer)
				q.Add(requestFor(before.Signer))
			}
		}
		known = now
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (p *publisher) signerAdded(signer Signer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.removed, signer.Name)
}

// signerRemoved records a signer whose bundles must be deleted in time.
func (p *publisher) signerRemoved(signer Signer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	signer.Roots = nil
	p.removed[signer.Name] = signer
}
