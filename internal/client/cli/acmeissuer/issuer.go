// Package acmeissuer checks ACME issuers from the command line: whether they could issue
// certificates for names, and the state of their accounts.
package acmeissuer

import (
	"context"
	"fmt"
	"io"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/account"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/rights"
)

// Source selects an issuer, and configures the output.
type Source struct {
	// Kind is Issuer or ClusterIssuer; empty means an Issuer or, if none has the name, a
	// ClusterIssuer.
	Kind            string
	Namespace, Name string
	// ClusterResources is the namespace of the Secrets of ClusterIssuers; empty means the
	// first usual namespace that contains the Secret.
	ClusterResources string
	// Output is json, yaml, or empty for text.
	Output string
	// Connect connects to the server.
	Connect func() (explain.Reader, error)
	// Kubectl returns the command line of kubectl for the same server.
	Kubectl func(words ...string) []string
	// UserAgent identifies this program to ACME servers.
	UserAgent string
	Stdout    io.Writer
}

// usualResources are the default namespaces of the Secrets of ClusterIssuers.
var usualResources = []string{rights.ServeNamespace, rights.ClusterNamespace, "cert-manager"}

// found is an issuer and the key of its account.
type found struct {
	issuer cmv1.GenericIssuer
	of     certmanager.Signer
	// accounts reads the Secrets in the namespace in which the key was found.
	accounts *account.Accounts
	api      explain.Reader
	// secret names the Secret with the key. keyErr is the reason for a missing key.
	secret types.NamespacedName
	key    account.Key
	keyErr error
	// hidden is set if the caller may not read the Secret.
	hidden bool
}

// String returns the name of the issuer.
func (f *found) String() string {
	text := f.of.Kind + " " + f.of.Name
	if f.of.Namespace != "" {
		text += " in the namespace " + f.of.Namespace
	}
	return text
}

// uri returns the URL of the account; empty if the issuer has none.
func (f *found) uri() string {
	if status := f.issuer.GetStatus().ACME; status != nil {
		return status.URI
	}
	return ""
}

// find reads the issuer and the key of its account.
func (s Source) find(ctx context.Context) (*found, error) {
	api, err := s.Connect()
	if err != nil {
		return nil, err
	}
	f := &found{api: api}
	if err := s.readIssuer(ctx, f); err != nil {
		return nil, err
	}
	if f.issuer.GetSpec().ACME == nil {
		return nil, fmt.Errorf("%s is not an ACME issuer: it has no spec.acme", f)
	}
	return f, s.readKey(ctx, f)
}

func (s Source) readIssuer(ctx context.Context, f *found) error {
	kinds := []string{s.Kind}
	if s.Kind == "" {
		kinds = []string{cmv1.IssuerKind, cmv1.ClusterIssuerKind}
	}
	for _, kind := range kinds {
		issuer, err := certmanager.NewIssuer(kind)
		if err != nil {
			return err
		}
		f.of = certmanager.Signer{Kind: kind, Name: s.Name}
		if kind == cmv1.IssuerKind {
			f.of.Namespace = s.Namespace
		}
		err = f.api.Get(ctx, types.NamespacedName{Namespace: f.of.Namespace, Name: s.Name}, issuer)
		switch {
		case err == nil:
			f.issuer = issuer
			return nil
		case !apierrors.IsNotFound(err) || served.IsMissing(err):
			return exit.Advise("reading the "+kind, err)
		}
	}
	return s.notFound()
}

func (s Source) notFound() error {
	text, list := "found no "+s.Kind+" named "+s.Name, "issuers,clusterissuers"
	switch s.Kind {
	case "":
		text = fmt.Sprintf("found no Issuer named %s in the namespace %s, and no ClusterIssuer of that name", s.Name, s.Namespace)
	case cmv1.IssuerKind:
		text += " in the namespace " + s.Namespace
	}
	return exit.WithNext(fmt.Errorf("%s", text), "To list them:", "  "+print.CommandLine(s.Kubectl("get", list, "--all-namespaces")...))
}

// readKey reads the key of the account. A missing key, and one that the caller may not
// read, are not errors here.
func (s Source) readKey(ctx context.Context, f *found) error {
	pool, err := acme.NewPool(acme.PoolConfig{UserAgent: s.UserAgent})
	if err != nil {
		return err
	}
	namespaces := usualResources
	if s.ClusterResources != "" || f.of.Namespace != "" {
		namespaces = []string{s.ClusterResources}
	}
	for _, namespace := range namespaces {
		accounts := account.New(account.Config{Pool: pool, Secrets: f.api, ClusterResources: namespace})
		name, entry := accounts.KeySecret(f.issuer)
		secret := &corev1.Secret{}
		err := f.api.Get(ctx, name, secret)
		switch {
		case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return exit.Advise("reading the Secret "+name.String(), err)
		case err == nil:
			f.accounts, f.secret, f.hidden = accounts, name, false
			f.key, f.keyErr = account.ReadKey(secret, entry)
			return nil
		case f.accounts != nil && (f.hidden || apierrors.IsNotFound(err)): // the first error is the same
		case apierrors.IsForbidden(err):
			f.keyErr, f.hidden = fmt.Errorf("you may not get the Secret %s with the account's key", name), true
			f.accounts, f.secret = accounts, name
		default:
			f.keyErr = fmt.Errorf("the Secret %s with the account's key does not exist", name)
			f.accounts, f.secret = accounts, name
		}
	}
	if len(namespaces) > 1 && !f.hidden {
		f.keyErr = fmt.Errorf("found no Secret %s in the namespaces %s: if the Secrets of ClusterIssuers are in another namespace, give --cluster-resource-namespace",
			f.secret.Name, strings.Join(namespaces, ", "))
	}
	return nil
}
