// Package trust writes the roots of a signer.
package trust

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rollover"
)

// look is the interval between two reads while waiting for the first bundle of a signer.
const look = 200 * time.Millisecond

// Formats are the values of Config.Output.
var Formats = []string{"pem", "der", "table"}

// Config selects the signer whose roots to write, and the output.
type Config struct {
	// Signer is the name of the signer.
	Signer string
	// Output is one of Formats.
	Output string
	// Connect connects to the server.
	Connect func() (explain.Reader, error)
	// Kubectl returns a command line of kubectl for the same server.
	Kubectl func(words ...string) string
	// Wait is the time to wait for the first bundle: a signer publishes its roots a
	// moment after it starts to sign.
	Wait time.Duration
	// Now is the current time.
	Now time.Time
	// Out is the file for the roots; empty for Stdout.
	Out string
	// Watch keeps Out equal to the bundles, reading them at the interval Every. After
	// each change a shell runs Exec, if it is not empty.
	Watch bool
	Every time.Duration
	Exec  string
	// The roots are written to Stdout, reports of Watch to Stderr.
	Stdout, Stderr io.Writer
}

// Root is a certificate that at least one bundle of the signer contains.
type Root struct {
	*x509.Certificate
	// bundle is the first bundle with it.
	bundle string
	// until is set if all bundles with the root have been superseded.
	until string
	// next is true for the root of the next CA; signsFrom is the time from which that CA
	// signs, or nil while it is unknown.
	next      bool
	signsFrom *metav1.Time
}

// Run writes the roots in all ClusterTrustBundles of a signer, each once.
func Run(ctx context.Context, cfg Config) error {
	api, err := cfg.Connect()
	if err != nil {
		return err
	}
	if cfg.Watch {
		return cfg.follow(ctx, api)
	}
	var roots []Root
	err = wait.PollUntilContextTimeout(ctx, look, cfg.Wait, true, func(context.Context) (bool, error) {
		roots, err = cfg.roots(ctx, api)
		return len(roots) > 0, err
	})
	switch {
	case errors.Is(err, certmanager.ErrNoResource):
		return errors.New("the server has no ClusterTrustBundles")
	case wait.Interrupted(err) && ctx.Err() == nil:
		return exit.WithNext(fmt.Errorf("found no ClusterTrustBundle of the signer %s%s", cfg.Signer, nearMiss(ctx, api, cfg.Signer)),
			"To list the signers with trust bundles:", "  "+cfg.Kubectl("get", "clustertrustbundles"))
	case err != nil:
		return exit.Advise("reading the trust bundles of "+cfg.Signer, err)
	}
	if cfg.Output == "table" {
		roots = withNext(ctx, api, cfg.Signer, roots)
	}
	if cfg.Out != "" {
		_, err = cfg.put(roots)
		return err
	}
	data, err := cfg.encode(roots)
	if err != nil {
		return err
	}
	_, err = cfg.Stdout.Write(data)
	return err
}

// roots returns the roots of the signer.
func (cfg Config) roots(ctx context.Context, api explain.Reader) ([]Root, error) {
	bundles, err := List(ctx, api, cfg.Signer)
	if err != nil {
		return nil, err
	}
	return Roots(bundles)
}

// withNext marks the root of the next CA, if the caller may list Signers.
func withNext(ctx context.Context, api explain.Reader, signer string, roots []Root) []Root {
	var signers v1alpha1.SignerList
	if err := api.List(ctx, &signers, client.MatchingFields{"spec.signerName": signer}); err != nil {
		return roots
	}
	return WithNext(roots, signers.Items)
}

// WithNext marks the roots of the next CAs of Signers.
func WithNext(roots []Root, signers []v1alpha1.Signer) []Root {
	for _, s := range signers {
		for i := range roots {
			if next := s.Status.NextCA; next != nil && next.Fingerprint == pki.Fingerprint(roots[i].Certificate) {
				roots[i].next, roots[i].signsFrom = true, next.SignsFrom
			}
		}
	}
	return roots
}

// nearMiss suggests a signer with a similar name that has bundles.
func nearMiss(ctx context.Context, api explain.Reader, signer string) string {
	bundles, err := List(ctx, api, "")
	if err != nil {
		return ""
	}
	var names []string
	for _, bundle := range bundles {
		names = append(names, bundle.Spec.SignerName)
	}
	if near := print.Near(signer, names); near != "" {
		return ": did you mean " + near + "?"
	}
	return ""
}

// List returns the bundles of a signer, or of all signers if signer is empty, in any
// version that the server serves. It returns certmanager.ErrNoResource if the server
// serves none.
func List(ctx context.Context, api explain.Reader, signer string) ([]certificatesv1.ClusterTrustBundle, error) {
	kind := schema.GroupKind{Group: certificatesv1.GroupName, Kind: "ClusterTrustBundle"}
	var options []client.ListOption
	if signer != "" {
		options = append(options, client.MatchingFields{"spec.signerName": signer})
	}
	found, err := explain.ListAnyVersion(ctx, api, kind, options...)
	if err != nil {
		return nil, err
	}
	var bundles []certificatesv1.ClusterTrustBundle
	for _, item := range found {
		var bundle certificatesv1.ClusterTrustBundle // all versions have the same fields
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &bundle); err != nil {
			return nil, err
		}
		bundles = append(bundles, bundle)
	}
	return bundles, nil
}

// Roots returns the certificates of bundles, latest expiry first.
func Roots(bundles []certificatesv1.ClusterTrustBundle) ([]Root, error) {
	var roots []Root
	for _, bundle := range bundles {
		certs, err := pki.ParseBundle([]byte(bundle.Spec.TrustBundle))
		if err != nil {
			return nil, fmt.Errorf("reading the ClusterTrustBundle %s: %w", bundle.Name, err)
		}
		until := bundle.Annotations[rollover.UntilAnnotation]
		for _, cert := range certs {
			at := slices.IndexFunc(roots, func(r Root) bool { return r.Equal(cert) })
			switch {
			case at < 0:
				roots = append(roots, Root{Certificate: cert, bundle: bundle.Name, until: until})
			case until == "":
				roots[at].bundle, roots[at].until = bundle.Name, ""
			}
		}
	}
	slices.SortStableFunc(roots, func(a, b Root) int { return b.NotAfter.Compare(a.NotAfter) })
	return roots, nil
}

// encode returns the roots in the format of the output.
func (cfg Config) encode(roots []Root) ([]byte, error) {
	switch cfg.Output {
	case "der":
		if len(roots) > 1 {
			return nil, exit.WithNext(fmt.Errorf("the signer %s has %d roots, but a DER file holds one certificate", cfg.Signer, len(roots)), "To write all of them: -o pem")
		}
		return roots[0].Raw, nil
	case "table":
		return table(roots, cfg.Now), nil
	}
	var data []byte
	for _, r := range roots {
		data = append(data, pki.EncodeCertificates(r.Certificate)...)
	}
	return data, nil
}

func table(roots []Root, now time.Time) []byte {
	rows := [][]string{{"SUBJECT", "EXPIRES", "IN", "STATE", "SHA-256 FINGERPRINT", "BUNDLE"}}
	for _, r := range roots {
		rows = append(rows, []string{
			r.Subject.String(), r.NotAfter.UTC().Format(time.DateOnly), print.Span(r.NotAfter.Sub(now)), r.State(now), pki.Fingerprint(r.Certificate), r.bundle,
		})
	}
	return []byte(print.Columns(rows))
}

// State describes whether to trust a root.
func (r Root) State(now time.Time) string {
	switch {
	case now.After(r.NotAfter):
		return "expired"
	case r.next && r.signsFrom != nil:
		return "next, signs from " + r.signsFrom.UTC().Format(time.RFC3339)
	case r.next:
		return "next"
	case r.until != "":
		return "superseded, trusted until " + r.until
	}
	return "current"
}
