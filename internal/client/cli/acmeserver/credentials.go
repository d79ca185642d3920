package acmeserver

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/rights"
)

// look is the interval between two reads of a new key.
const look = 200 * time.Millisecond

// CredentialsConfig selects the external key, and the client.
type CredentialsConfig struct {
	Config
	Namespace, Name string
	// Create, if not nil, is the spec of the key to create first.
	Create *v1alpha1.AcmeExternalKeySpec
	// Wait is the time to wait until a new key is ready.
	Wait time.Duration
	// ShowKey prints the MAC key, which is a secret.
	ShowKey bool
	// Client is the name of one client whose lines are shown; empty for all.
	Client string
	// Domain is the DNS name in the lines; empty for a name that the key permits.
	Domain string
	// Roots is the file with the server's roots in the lines.
	Roots string
}

// Credentials holds the data for clients, for JSON and YAML.
type Credentials struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// KID is the key identifier. MACKey is the key as base64url text, set only with
	// ShowKey.
	KID       string `json:"kid"`
	MACKey    string `json:"macKey,omitempty"`
	Directory string `json:"directory"`
	// Fingerprint is the fingerprint of the root of the server's certificate.
	Fingerprint string                 `json:"fingerprint,omitempty"`
	Ready       metav1.ConditionStatus `json:"ready"`
	Message     string                 `json:"message,omitempty"`
	reason      string
	// Clients are the lines for each program.
	Clients []ClientLines `json:"clients"`
}

// ShowCredentials prints the data that clients with an external key need.
func ShowCredentials(ctx context.Context, cfg CredentialsConfig) error {
	c, err := cfg.Connect()
	if err != nil {
		return err
	}
	k, err := cfg.key(ctx, c)
	if err != nil {
		return err
	}
	e, err := cfg.endpoint(ctx, c, k.Spec.Endpoint)
	if err != nil && !apierrors.IsForbidden(err) { // owners of namespaces may lack the right to read it
		return err
	}
	found := Credentials{Namespace: k.Namespace, Name: k.Name, KID: k.Status.KID, Directory: k.Status.Directory, Ready: metav1.ConditionUnknown}
	if ready := meta.FindStatusCondition(k.Status.Conditions, v1alpha1.Ready); ready != nil {
		found.Ready, found.Message, found.reason = ready.Status, ready.Message, ready.Reason
	}
	if found.KID == "" || found.Directory == "" {
		return exit.WithNext(fmt.Errorf("the AcmeExternalKey %s/%s has no key identifier and directory yet: %s", k.Namespace, k.Name, cmp.Or(found.Message, "no controller has processed it")),
			"To see whether the endpoint works: "+cfg.Command("acme", "endpoints", k.Spec.Endpoint))
	}
	if trust := e.Status.Trust; trust != nil {
		found.Fingerprint = trust.Fingerprint
	}
	if cfg.ShowKey {
		if found.MACKey, err = cfg.macKey(ctx, c, k); err != nil {
			return err
		}
	}
	lines := clientLines{Credentials: found, domain: cmp.Or(cfg.Domain, domainOf(&k.Spec, &e.Spec)), roots: cfg.Roots, secret: k.Spec.Secret}
	if found.Clients, err = lines.of(cfg.Client); err != nil {
		return err
	}
	return print.Found(cfg.Stdout, cfg.Output, found, func() string { return cfg.text(k, found) })
}

// key returns the external key; with Create it creates the key first.
func (cfg CredentialsConfig) key(ctx context.Context, c client.Client) (*v1alpha1.AcmeExternalKey, error) {
	k := &v1alpha1.AcmeExternalKey{ObjectMeta: metav1.ObjectMeta{Namespace: cfg.Namespace, Name: cfg.Name}}
	if cfg.Create == nil {
		err := c.Get(ctx, client.ObjectKeyFromObject(k), k)
		if apierrors.IsNotFound(err) && !served.IsMissing(err) {
			return nil, exit.WithNext(fmt.Errorf("found no AcmeExternalKey %s in the namespace %s", cfg.Name, cfg.Namespace),
				"To list them:", "  "+cfg.Command("kubectl", "get", "acmeexternalkeys", "-A"),
				"To create it:", "  "+cfg.Command("acme", "credentials", "-n", cfg.Namespace, cfg.Name, "--create", "--endpoint", "ENDPOINT", "--serviceaccount", "NAME"))
		}
		return k, cfg.refused("reading the AcmeExternalKey "+cfg.Name, err, "get on acmeexternalkeys.certplane.dev, as in the ClusterRole view", "acmeexternalkeys", "-A")
	}
	k.Spec = *cfg.Create
	err := c.Create(ctx, k, client.FieldOwner(fieldManager))
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil, exit.WithNext(fmt.Errorf("the AcmeExternalKey %s/%s exists already", cfg.Namespace, cfg.Name), "To see its credentials, omit --create.")
	case err != nil:
		needs := fmt.Sprintf("create on acmeexternalkeys.certplane.dev, the verb %s on acmeendpoints/%s, create on serviceaccounts/token of %s, and for preauthorized names the verb %s on the endpoint",
			rights.ACMEUse, k.Spec.Endpoint, k.Spec.ServiceAccount, rights.ACMEPreauthorize)
		return nil, cfg.refused("creating the AcmeExternalKey "+cfg.Name, err, needs, "acmeexternalkeys", "-n", cfg.Namespace)
	}
	fmt.Fprintf(cfg.Stderr, "Created the AcmeExternalKey %s/%s\n", cfg.Namespace, cfg.Name)
	return k, cfg.settled(ctx, c, k)
}

// settled waits until it is known whether a new key can be used.
func (cfg CredentialsConfig) settled(ctx context.Context, c client.Client, k *v1alpha1.AcmeExternalKey) error {
	err := wait.PollUntilContextTimeout(ctx, look, cfg.Wait, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(k), k)
		return meta.FindStatusCondition(k.Status.Conditions, v1alpha1.Ready) != nil, err
	})
	if err != nil && ctx.Err() == nil && !wait.Interrupted(err) {
		return cfg.refused("reading the AcmeExternalKey "+k.Name, err, "get on acmeexternalkeys.certplane.dev")
	}
	return ctx.Err()
}

// macKey reads the MAC key.
func (cfg CredentialsConfig) macKey(ctx context.Context, c client.Client, k *v1alpha1.AcmeExternalKey) (string, error) {
	of, secret := k.Spec.Secret, &corev1.Secret{}
	err := c.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: of.Name}, secret)
	if apierrors.IsNotFound(err) {
		return "", exit.WithNext(fmt.Errorf("the Secret %s/%s with the key does not exist yet", k.Namespace, of.Name), cfg.letServer(k)...)
	}
	if err != nil {
		return "", cfg.refused(fmt.Sprintf("reading the Secret %s/%s", k.Namespace, of.Name), err, "get on the Secret")
	}
	if len(secret.Data[of.Key]) == 0 {
		return "", exit.WithNext(fmt.Errorf("the Secret %s/%s has no entry %s", k.Namespace, of.Name, of.Key), "Delete it, and the server creates it again with a random key; or write your own key: at least 32 bytes as base64url text without padding.")
	}
	return string(secret.Data[of.Key]), nil
}

// letServer returns the steps that give the server the rights for a key.
func (cfg CredentialsConfig) letServer(k *v1alpha1.AcmeExternalKey) []string {
	return []string{
		"The server creates it as soon as it is permitted. To permit it, as the owner of the namespace:",
		"  " + cfg.Command("acme", "allow", "-n", k.Namespace, k.Spec.ServiceAccount, "--apply"),
	}
}

// domainOf returns a name that a client can order, as an example.
func domainOf(k *v1alpha1.AcmeExternalKeySpec, e *v1alpha1.AcmeEndpointSpec) string {
	var patterns []string
	if k.Preauthorized != nil {
		patterns = append(patterns, k.Preauthorized.DNS...)
	}
	if k.Identifiers != nil && k.Identifiers.DNS != nil {
		patterns = append(patterns, k.Identifiers.DNS.Allow...)
	}
	if e.Identifiers.DNS != nil {
		patterns = append(patterns, e.Identifiers.DNS.Allow...)
	}
	if len(patterns) == 0 {
		return "www.example.com"
	}
	if zone, below := strings.CutPrefix(patterns[0], "*."); below {
		return "www." + zone
	}
	return patterns[0]
}

func (cfg CredentialsConfig) text(k *v1alpha1.AcmeExternalKey, found Credentials) string {
	p := &print.Page{}
	if found.Ready == metav1.ConditionTrue {
		p.Line(fmt.Sprintf("The AcmeExternalKey %s/%s is ready.", k.Namespace, k.Name))
	} else {
		p.Line(fmt.Sprintf("The AcmeExternalKey %s/%s is not ready: %s", k.Namespace, k.Name, cmp.Or(found.Message, "no controller has processed it yet")))
	}
	if found.Ready == metav1.ConditionFalse && strings.HasSuffix(found.reason, "Forbidden") {
		p.Line("As the owner of the namespace: " + cfg.Command("acme", "allow", "-n", k.Namespace, k.Spec.ServiceAccount, "--apply"))
	}
	mac := "in the Secret " + k.Spec.Secret.Name + ", entry " + k.Spec.Secret.Key + ": --show-key shows it"
	if found.MACKey != "" {
		mac = found.MACKey
	}
	p.Table([][]string{{"key identifier", found.KID}, {"MAC key", mac}, {"directory", found.Directory}, {"fingerprint", cmp.Or(found.Fingerprint, "not known")}, {"acts as", k.Namespace + "/" + k.Spec.ServiceAccount}})
	p.Title("Once on each host")
	trust := []string{"acme", "trust", found.Directory, "--out", cfg.Roots}
	if found.Fingerprint != "" {
		trust = append(trust, "--fingerprint", found.Fingerprint)
	}
	p.Line("  " + print.CommandLine(append([]string{"certplane"}, trust...)...))
	if found.MACKey == "" {
		p.Line("  " + keyVariable + "=...   # the MAC key, a secret")
	}
	for _, client := range found.Clients {
		p.Title(client.Name)
		for _, line := range client.Lines {
			p.Line("  " + line)
		}
	}
	return p.String()
}
