package trust

import (
	"context"
	"crypto/x509"
	"slices"
	"time"
)

// signer returns the named signer as it is now.
func (p *publisher) signer(name string) (Signer, bool) {
	for _, signer := range p.signers() {
		if signer.Name == name {
			return signer, true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	signer, gone := p.gone[name]
	return signer, gone
}

// signers returns the present signers.
func (p *publisher) signers() []Signer {
	if p.More == nil {
		return p.Signers
	}
	return append(slices.Clip(p.Signers), p.More()...)
}

// seen is what a look at a signer has found.
type seen struct {
	Signer
	roots []*x509.Certificate
}

// watchSigners queues the signers that come, go, or have changed roots.
func (p *publisher) watchSigners(ctx context.Context, q queue) {
	known := map[string]seen{}
	ticker := time.NewTicker(lookMore)
	defer ticker.Stop()
	for {
		now := map[string]seen{}
		for _, signer := range p.More() {
			found := seen{signer, signer.Roots()}
			now[signer.Name] = found
			if before, ok := known[signer.Name]; !ok || !slices.EqualFunc(before.roots, found.roots, (*x509.Certificate).Equal) {
				p.comes(signer)
				q.Add(requestFor(signer))
			}
		}
		for name, before := range known {
			if _, there := now[name]; !there {
				p.goes(before.Signer)
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

func (p *publisher) comes(signer Signer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.gone, signer.Name)
}

// goes remembers a removed signer, so that its bundles are deleted in time.
func (p *publisher) goes(signer Signer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	signer.Roots = nil
	p.gone[signer.Name] = signer
}
