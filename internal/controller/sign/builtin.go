package sign

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/signer"
	"github.com/certplane/certplane/internal/signer/metrics"
)

// CA is where a signer's CA comes from.
type CA interface {
	// Current returns the CA with which to sign now. It is called for every
	// certificate and must be fast. An error delays certificates until it
	// goes away; it is logged, not shown to requesters.
	Current() (*pki.Authority, error)
}

// BuiltIn is a signer of Kubernetes with a CA of this process.
type BuiltIn struct {
	// Config is that of the signer; Sign and Changes follow from the CA.
	Config
	// CA has the signer's CA. One that tells when another takes its place has a
	// method Subscribe, as keystore.Store has.
	CA CA
	// Alone has certificates without the CAs above.
	Alone bool
	// Issuing is what the signer signs with besides its CA.
	Issuing pki.Issuing
	// Account is whom events regard that are about the signer and no request:
	// its service account. Nil: there are no such events.
	Account *corev1.ObjectReference
}

// AddBuiltIn adds a built-in signer to mgr, and what warns before its CA ends.
func AddBuiltIn(mgr ctrl.Manager, b BuiltIn) error {
	cfg, err := b.config()
	if err != nil {
		return err
	}
	watch, err := b.watch()
	if err != nil {
		return err
	}
	if err := mgr.Add(watch); err != nil {
		return fmt.Errorf("adding the watch over the CA: %w", err)
	}
	return Add(mgr, cfg)
}

// config is that of the signer with what follows from the CA.
func (b BuiltIn) config() (Config, error) {
	cfg := b.Config
	profile, err := signer.Lookup(cfg.SignerName)
	if err != nil {
		return Config{}, err
	}
	profile.Alone = b.Alone
	cfg.Sign = signer.Local(profile.With(limits(cfg.Settings.For(cfg.SignerName))), b.CA.Current, b.Issuing)
	if ca, ok := b.CA.(interface {
		Subscribe(changed func(*pki.Authority)) (cancel func())
	}); ok {
		cfg.Changes = AnyChange(ca.Subscribe)
	}
	return cfg, nil
}

// watch returns what looks at the CA while no request needs it.
func (b BuiltIn) watch() (*caWatch, error) {
	counts, err := metrics.New(b.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of signer %s: %w", b.SignerName, err)
	}
	return &caWatch{
		signerName: b.SignerName, ca: b.CA, clock: cmp.Or[clock.PassiveClock](b.Clock, clock.RealClock{}),
		warnBefore: b.Settings.withDefaults().WarnBefore.Duration, metrics: counts, events: b.Events, regarding: b.Account,
	}, nil
}

func limits(s SignerSettings) signer.Limits {
	return signer.Limits{MaxDuration: s.MaxDuration.Duration, MinRSABits: s.MinRSABits, Strict: s.Strict}
}
