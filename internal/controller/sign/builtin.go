package sign

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/metrics"
	"github.com/certplane/certplane/internal/pki"
)

// CA is where a signer's CA comes from.
type CA interface {
	// Current returns the CA with which to sign now. It is called for every
	// certificate and must be fast. An error delays certificates until it is
	// resolved; it is logged, not shown to requesters.
	Current() (*pki.Authority, error)
}

// BuiltIn is a signer of Kubernetes with a CA of this process.
type BuiltIn struct {
	// Config is the signer's configuration; Sign and Changes are set from the
	// CA.
	Config
	// CA holds the signer's CA. If it reports when another CA takes its place,
	// it has a method Subscribe, as keystore.Store has.
	CA CA
	// Alone leaves the CAs above out of the issued chain.
	Alone bool
	// Issuing configures the signatures of the signer.
	Issuing pki.Issuing
	// Account is the object of Events about the signer as a whole: its service account. If
	// it is nil, no such Events are recorded.
	Account *corev1.ObjectReference
}

// AddBuiltIn adds a built-in signer to mgr, and what warns before its CA
// expires.
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
		return fmt.Errorf("adding the expiry monitor of the CA: %w", err)
	}
	return Add(mgr, cfg)
}

// config returns the signer's configuration with the fields that are set from
// the CA.
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

// watch returns the caWatch, which checks the CA while no request needs it.
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
