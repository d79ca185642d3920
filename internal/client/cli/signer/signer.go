// Package signer creates Signers with a profile for common needs.
package signer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/process/duration"
)

// Options describe a Signer and its certificates.
type Options struct {
	// Name is the name of the Signer.
	Name string
	// SignerName is the name of the signer in requests. Default: DOMAIN/NAME, with the
	// domain of its names.
	SignerName string
	// Suffixes are the domains whose DNS names it signs for.
	Suffixes []string
	// Server and Client select the usages of certificates; a server's if neither is set.
	Server, Client bool
	// MaxDuration is the longest lifetime.
	MaxDuration time.Duration
	// Propagation is the time between publishing the root of a new CA and signing with
	// it; 0 for the server's default.
	Propagation time.Duration
}

// New returns the Signer.
func New(o Options) (*v1alpha1.Signer, error) {
	if errs := validation.IsDNS1123Subdomain(o.Name); len(errs) > 0 {
		return nil, fmt.Errorf("the name of the Signer is %q, want lower-case letters, digits, - and dots, such as hosts. Set the name for requests with --signer-name DOMAIN/NAME", o.Name)
	}
	if len(o.Suffixes) == 0 {
		return nil, errors.New("name the domain of the Signer: --dns-suffix hosts.example.com")
	}
	var suffixes []string
	for _, given := range o.Suffixes {
		suffix := strings.TrimPrefix(strings.TrimPrefix(given, "*"), ".")
		if errs := validation.IsDNS1123Subdomain(suffix); len(errs) > 0 {
			return nil, fmt.Errorf("--dns-suffix is %q, want a domain in lower case, such as hosts.example.com", given)
		}
		suffixes = append(suffixes, suffix)
	}
	if o.SignerName == "" {
		o.SignerName = strings.TrimPrefix(suffixes[0], o.Name+".") + "/" + o.Name
	}
	s := &v1alpha1.Signer{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Signer"},
		ObjectMeta: metav1.ObjectMeta{Name: o.Name},
		Spec: v1alpha1.SignerSpec{
			SignerName: o.SignerName,
			Requests:   []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests},
			CA:         v1alpha1.SignerCA{Generated: &v1alpha1.GeneratedCA{}},
			Profile:    contents(o, suffixes),
		},
	}
	if o.Propagation != 0 {
		s.Spec.CA.Generated.Propagation = &metav1.Duration{Duration: o.Propagation}
	}
	if _, errs := profile.Compile(s.Spec, field.NewPath("spec")); len(errs) > 0 {
		return nil, explained(o, errs[0])
	}
	return s, nil
}

// explained adds the flag to an error.
func explained(o Options, err *field.Error) error {
	switch err.Field {
	case "spec.signerName":
		return fmt.Errorf("--signer-name is %q: %s", o.SignerName, err.Detail)
	case "spec.ca.generated.propagation":
		return fmt.Errorf("--propagation is %s: %s", duration.Format(o.Propagation), err.Detail)
	case "spec.profile.lifetime.maximum":
		return fmt.Errorf("--max-duration is %s: %s", duration.Format(o.MaxDuration), err.Detail)
	case "spec.ca.generated.lifetime":
		return fmt.Errorf("--max-duration is %s, want at most a third of the ten years of the CA", duration.Format(o.MaxDuration))
	}
	return err
}

// contents returns the profile. Clients verify only the DNS names (RFC 9525), so the
// subject has at most a common name, which is one of them.
func contents(o Options, suffixes []string) v1alpha1.SignerProfile {
	var tests []string
	for _, suffix := range suffixes {
		tests = append(tests, "name.endsWith("+strconv.Quote("."+suffix)+")")
	}
	return v1alpha1.SignerProfile{
		Subject: v1alpha1.SubjectProfile{CommonName: "request.subject.commonName"},
		Names:   v1alpha1.NamesProfile{DNSNames: "request.dnsNames"},
		Rules: []v1alpha1.ProfileRule{{
			Expression: "size(request.dnsNames) > 0",
			Message:    "a DNS name is needed", Reason: "NoName",
		}, {
			Expression: `request.dnsNames.all(name, !name.startsWith("*"))`,
			Message:    "no wildcards", Reason: "Wildcard",
		}, {
			Expression: v1alpha1.CEL("request.dnsNames.all(name, " + strings.Join(tests, " || ") + ")"),
			Message:    "only names under " + strings.Join(suffixes, " and "), Reason: "ForeignName",
		}, {
			Expression: `request.subject.text == "" || request.subject.text == "CN=" + request.subject.commonName && request.subject.commonName in request.dnsNames`,
			Message:    "the subject must be empty, or a common name that is one of the DNS names", Reason: "Subject",
		}},
		Usages:   usages(o),
		Lifetime: v1alpha1.LifetimeProfile{Maximum: &metav1.Duration{Duration: o.MaxDuration}},
	}
}

func usages(o Options) []string {
	usages := []string{"digital signature", "key encipherment"}
	if o.Server || !o.Client {
		usages = append(usages, "server auth")
	}
	if o.Client {
		usages = append(usages, "client auth")
	}
	return usages
}

// Config configures the creation of a Signer.
type Config struct {
	Options
	// DryRun prints the Signer (client), or lets the server check it without storing it
	// (server).
	DryRun string
	// Output is a format of print.Formats, to print the Signer and to write nothing.
	Output string
	// Connect connects to the server.
	Connect func() (client.Client, error)
	// Command returns the command line of another verb for the same server.
	Command func(words ...string) string
	// Stdout receives the results.
	Stdout io.Writer
}

// ErrNoKind reports that the API server does not serve Signers.
var ErrNoKind = errors.New("the API server has no Signers: in a cluster, 'certplane manifests' installs the kind")

// Create creates the Signer, and prints the next steps.
func Create(ctx context.Context, cfg Config) error {
	s, err := New(cfg.Options)
	if err != nil {
		return err
	}
	if cfg.Output != "" || cfg.DryRun == "client" {
		manifest := struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
			Spec              v1alpha1.SignerSpec `json:"spec"`
		}{s.TypeMeta, s.ObjectMeta, s.Spec}
		return print.Found(cfg.Stdout, cmp.Or(cfg.Output, "yaml"), manifest, nil)
	}
	c, err := cfg.Connect()
	if err != nil {
		return err
	}
	var options []client.CreateOption
	if cfg.DryRun == "server" {
		options = append(options, client.DryRunAll)
	}
	err = c.Create(ctx, s, options...)
	switch {
	case apierrors.IsAlreadyExists(err):
		return exit.WithNext(fmt.Errorf("the Signer %s exists already and was not changed", s.Name),
			"To see it: "+cfg.Command("kubectl", "get", "signers.certplane.dev", s.Name, "-o", "yaml"), "To change it: "+cfg.Command("kubectl", "edit", "signers.certplane.dev", s.Name))
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return ErrNoKind
	case apierrors.IsForbidden(err):
		return exit.WithNext(exit.Advise("creating the Signer "+s.Name, err), "It requires create on signers.certplane.dev, a right as powerful as cluster-admin: a Signer decides which identities programs trust.")
	case err != nil:
		return exit.Advise("creating the Signer "+s.Name, err)
	}
	return cfg.report(s)
}

// usageFlags returns the flags of a request for the usages of client certificates:
// without the right to read Signers, certplane would assume a server's usages for a DNS
// name.
func (cfg Config) usageFlags() []string {
	if !cfg.Client {
		return nil
	}
	var flags []string
	for _, usage := range usages(cfg.Options) {
		if usage != "key encipherment" { // for RSA keys alone
			flags = append(flags, "--usage", usage)
		}
	}
	return flags
}

func (cfg Config) report(s *v1alpha1.Signer) error {
	if cfg.DryRun == "server" {
		_, err := fmt.Fprintf(cfg.Stdout, "signer.certplane.dev/%s would be created\n", s.Name)
		return err
	}
	name := s.Spec.SignerName
	example := "web." + strings.TrimPrefix(strings.TrimPrefix(cfg.Suffixes[0], "*"), ".")
	_, err := fmt.Fprintf(cfg.Stdout, `signer.certplane.dev/%s created
It signs for %s.

To get a certificate from it:
  %s
To let users request, and other users approve:
  %s
  %s
`, s.Name, name,
		cfg.Command(slices.Concat([]string{"request", "--signer", name, "--dns", example}, cfg.usageFlags(), []string{"--out", "web", "--approve"})...),
		cfg.Command("grant", "request", "--signer", name, "--group", "GROUP"),
		cfg.Command("grant", "approve", "--signer", name, "--group", "GROUP"))
	return err
}
