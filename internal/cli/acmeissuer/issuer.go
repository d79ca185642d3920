// Package acmeissuer looks at ACME issuers from the command line: whether
// certificates could be issued for names, and what their accounts are.
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
	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/explain"
	"github.com/certplane/certplane/internal/rights"
)

// Source says which issuer to look at, and how to write what is found.
type Source struct {
	// Kind is Issuer or ClusterIssuer; empty means an Issuer or, if there is none
	// of the name, a ClusterIssuer.
	Kind            string
	Namespace, Name string
	// ClusterResources is the namespace of the Secrets of ClusterIssuers; empty
	// means one of the usual ones that has the Secret.
	ClusterResources string
	// Output is json, yaml, or empty for the text for people.
	Output string
	// Connect connects to the server.
	Connect func() (explain.Reader, error)
	// Kubectl returns the command line of kubectl for the same server.
	Kubectl func(words ...string) []string
	// UserAgent names this program to ACME servers.
	UserAgent string
	Stdout    io.Writer
}

// usualResources are the namespaces of the Secrets of ClusterIssuers where
// nothing else is configured.
var usualResources = []string{rights.ServeNamespace, rights.ClusterNamespace, "cert-manager"}

// found is an issuer and the key of its account.
type found struct {
	issuer cmv1.GenericIssuer
	of     certmanager.Signer
	// accounts reads the Secrets in the namespace in which the key was found.
	accounts *account.Accounts
	api      explain.Reader
	// secret is where the key is. keyErr is why there is no key.
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
	text, list := "there is no "+s.Kind+" named "+s.Name, "issuers,clusterissuers"
	switch s.Kind {
	case "":
		text = fmt.Sprintf("there is no Issuer named %s in the namespace %s, and no ClusterIssuer of that name", s.Name, s.Namespace)
	case cmv1.IssuerKind:
		text += " in the namespace " + s.Namespace
	}
	return exit.WithNext(fmt.Errorf("%s", text), "To see which there are:", "  "+print.CommandLine(s.Kubectl("get", list, "--all-namespaces")...))
}

// readKey reads the key of the account. That there is none, or that the caller
// may not read it, is no error here.
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
		case f.accounts != nil && (f.hidden || apierrors.IsNotFound(err)): // the first says the same
		case apierrors.IsForbidden(err):
			f.keyErr, f.hidden = fmt.Errorf("you may not get the Secret %s, which has the key of the account", name), true
			f.accounts, f.secret = accounts, name
		default:
			f.keyErr = fmt.Errorf("there is no Secret %s, where the key of the account should be", name)
			f.accounts, f.secret = accounts, name
		}
	}
	if len(namespaces) > 1 && !f.hidden {
		f.keyErr = fmt.Errorf("there is no Secret %s in the namespaces %s: if the ClusterIssuers have their Secrets elsewhere, say so with --cluster-resource-namespace",
			f.secret.Name, strings.Join(namespaces, ", "))
	}
	return nil
}
