// Package hostadd lets the host of an agent obtain certificates.
package hostadd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/agenthost"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/grant"
	"github.com/certplane/certplane/internal/client/cli/signer"
	"github.com/certplane/certplane/internal/client/cli/token"
	"github.com/certplane/certplane/internal/policy/profile/readymade"
)

// Host is a host and the names of its certificate.
type Host struct {
	Name                  string
	DNSNames, IPAddresses []string
	// Namespace is the namespace of the service account, which has the host's name.
	Namespace string
}

// Validate returns an error for a value that the server or the agent would refuse.
func (h Host) Validate() error {
	if problems := validation.IsDNS1123Subdomain(h.Name); len(problems) > 0 {
		return fmt.Errorf("%q is not a valid name for a host: %s", h.Name, problems[0])
	}
	if problems := validation.IsDNS1123Label(h.Namespace); len(problems) > 0 {
		return fmt.Errorf("--namespace %q is not a valid name: %s", h.Namespace, problems[0])
	}
	if len(h.DNSNames)+len(h.IPAddresses) == 0 {
		return errors.New("name the certificate's names: --dns www.example.com or --ip 192.0.2.7")
	}
	for _, name := range h.DNSNames {
		if err := validateDNSName(name); err != nil {
			return err
		}
	}
	for _, text := range h.IPAddresses {
		if address, err := netip.ParseAddr(text); err != nil || address.Zone() != "" {
			return fmt.Errorf("--ip %q is not an IP address", text)
		}
	}
	return nil
}

func validateDNSName(name string) error {
	if _, err := netip.ParseAddr(name); err == nil {
		return fmt.Errorf("--dns %q is an address: give it with --ip", name)
	}
	if strings.ContainsAny(name, ":/") {
		return fmt.Errorf("--dns %q is not a DNS name: give only the name, without https://, port and path", name)
	}
	if problems := validation.IsDNS1123Subdomain(strings.TrimPrefix(name, "*.")); len(problems) > 0 {
		return fmt.Errorf("--dns %q is not a DNS name in lower case", name)
	}
	return nil
}

// account returns the service account whose annotations list the names.
func (h Host) account() *corev1.ServiceAccount {
	annotations := map[string]string{}
	if len(h.DNSNames) > 0 {
		annotations[agenthost.DNSNamesAnnotation] = strings.Join(h.DNSNames, ",")
	}
	if len(h.IPAddresses) > 0 {
		annotations[agenthost.IPAddressesAnnotation] = strings.Join(h.IPAddresses, ",")
	}
	return &corev1.ServiceAccount{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: h.Namespace, Name: h.Name, Labels: map[string]string{grant.ManagedBy: grant.Program}, Annotations: annotations,
		},
	}
}

// rights returns the role that lets the host act for its service account, and its
// binding.
func (h Host) rights() []client.Object {
	rules := []rbacv1.PolicyRule{{Verbs: []string{"host"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{h.Name}}}
	subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:node:" + h.Name}
	return grant.InNamespace(h.Namespace, "certplane:host:"+h.Name, rules, []rbacv1.Subject{subject})
}

// Config configures adding or removing a host.
type Config struct {
	Host
	// TTL is the lifetime of the bootstrap token, Place the file to write it to.
	TTL   time.Duration
	Place token.Place
	// Output is json or yaml, to print the objects and to write nothing.
	Output string
	// Connect connects to the server, Secrets to its bootstrap tokens.
	Connect func() (client.Client, error)
	Secrets func() (token.Secrets, *rest.Config, error)
	// Command returns the command line of another verb for the same server, Again the
	// command line of this verb for another user.
	Command func(words ...string) string
	Again   string
	// The agent's configuration is written to Stdout, reports of changes to Stderr.
	Stdout, Stderr io.Writer
}

// Add lets the host obtain its certificates, and prints the configuration of its agent.
// Existing objects stay unchanged.
func Add(ctx context.Context, cfg Config, now time.Time) error {
	signer, err := readymade.Make(readymade.AgentHosts, readymade.Parameters{})
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: cfg.Namespace}}
	if cfg.Output != "" {
		objects := append([]client.Object{signer, namespace, cfg.account()}, cfg.rights()...)
		_, err := grant.Write(ctx, grant.Config{Output: cfg.Output, Stdout: cfg.Stdout}, objects)
		return err
	}
	c, err := cfg.Connect()
	if err != nil {
		return err
	}
	if signer, err = cfg.putSigner(ctx, c, signer); err != nil {
		return err
	}
	if err := cfg.put(ctx, c, namespace, "namespace/"+namespace.Name, nil); err != nil {
		return err
	}
	if err := cfg.putAccount(ctx, c); err != nil {
		return err
	}
	if err := cfg.grant(ctx, c, false); err != nil {
		return err
	}
	if err := cfg.admit(ctx, c, now); err != nil {
		return err
	}
	return cfg.printAgent(signer)
}

func (cfg Config) grant(ctx context.Context, c client.Client, remove bool) error {
	_, err := grant.Write(ctx, grant.Config{
		Remove: remove, DryRun: grant.DryRunNone, Connect: func() (client.Client, error) { return c, nil },
		Command: cfg.Command, Again: cfg.Again, Stdout: cfg.Stderr, Stderr: cfg.Stderr,
	}, cfg.rights())
	return err
}

// put creates an object. If it exists, change updates it; nil leaves it unchanged.
func (cfg Config) put(ctx context.Context, c client.Client, object client.Object, name string, change func() (bool, error)) error {
	result := "created"
	err := c.Create(ctx, object.DeepCopyObject().(client.Object))
	if apierrors.IsAlreadyExists(err) {
		result, err = "unchanged", c.Get(ctx, client.ObjectKeyFromObject(object), object)
		changed := false
		if err == nil && change != nil {
			changed, err = change()
		}
		if err == nil && changed {
			result, err = "configured", c.Update(ctx, object)
		}
	}
	if err != nil {
		return cfg.explain("writing "+name, err)
	}
	fmt.Fprintf(cfg.Stderr, "%s %s\n", name, result)
	return nil
}

func (cfg Config) explain(doing string, err error) error {
	switch {
	case served.IsMissing(err):
		return fmt.Errorf("%s: %w", doing, signer.ErrNoKind)
	case apierrors.IsForbidden(err):
		return exit.WithNext(exit.Advise(doing, err), "It requires an administrator: this command sets the names of a host's certificate. An administrator runs:", "  "+cfg.Again)
	}
	return exit.Advise(doing, err)
}

// putSigner creates the Signer of hosts, unless it exists.
func (cfg Config) putSigner(ctx context.Context, c client.Client, signer *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if err := cfg.put(ctx, c, signer, "signer.certplane.dev/"+signer.GetName(), nil); err != nil {
		return nil, err
	}
	kinds, _, err := unstructured.NestedStringSlice(signer.Object, "spec", "requests")
	if err == nil && !slices.Contains(kinds, string(v1alpha1.PodCertificateRequests)) {
		err = exit.WithNext(fmt.Errorf("the Signer %s does not sign PodCertificateRequests, which agents create", signer.GetName()),
			"Add them to its spec.requests: "+cfg.Command("kubectl", "edit", "signers.certplane.dev", signer.GetName()))
	}
	return signer, err
}

// putAccount creates the service account, or updates its names.
func (cfg Config) putAccount(ctx context.Context, c client.Client) error {
	account, want := cfg.account(), cfg.account()
	name := "serviceaccount/" + account.Name + " in " + account.Namespace
	return cfg.put(ctx, c, account, name, func() (bool, error) {
		if err := cfg.ours(account); err != nil {
			return false, err
		}
		before := account.DeepCopy()
		for _, key := range []string{agenthost.DNSNamesAnnotation, agenthost.IPAddressesAnnotation} {
			delete(account.Annotations, key)
			if value, is := want.Annotations[key]; is {
				metav1.SetMetaDataAnnotation(&account.ObjectMeta, key, value)
			}
		}
		return !equality.Semantic.DeepEqual(before, account), nil
	})
}

// ours refuses a service account that was created for another purpose.
func (cfg Config) ours(account *corev1.ServiceAccount) error {
	if account.Labels[grant.ManagedBy] == grant.Program {
		return nil
	}
	return fmt.Errorf("the service account %s in the namespace %s was not created by 'certplane host add' and was not changed: choose another namespace with --namespace", account.Name, account.Namespace)
}

// admit writes a kubeconfig with a bootstrap token for the host, unless it has joined. It
// reuses a valid token.
func (cfg Config) admit(ctx context.Context, c client.Client, now time.Time) error {
	joined := c.Get(ctx, client.ObjectKey{Name: cfg.Name}, &corev1.Node{})
	if joined == nil {
		fmt.Fprintf(cfg.Stderr, "%s has joined already: it got no bootstrap token. To give it one: %s\n",
			cfg.Name, cfg.Command("token", "create", "--node", cfg.Name, "--out", cfg.Place.Path))
		return nil
	}
	if !apierrors.IsNotFound(joined) {
		return exit.Advise("reading the node "+cfg.Name, joined)
	}
	secrets, server, err := cfg.Secrets()
	if err != nil {
		return err
	}
	options := token.Options{TTL: cfg.TTL, Node: cfg.Name, Description: "certplane host add"}
	known, err := token.ForNode(ctx, secrets, cfg.Name, now)
	if err != nil {
		return err
	}
	if present, err := os.ReadFile(cfg.Place.Path); err == nil && known != "" && strings.Contains(string(present), known) {
		fmt.Fprintf(cfg.Stderr, "%s unchanged: bootstrap token %s\n", cfg.Place.Path, token.ID(known))
		return nil
	}
	if err := cfg.Place.Check(); err != nil {
		return err
	}
	made := known
	if made == "" {
		if made, err = token.Create(ctx, secrets, options, now); err != nil {
			return err
		}
	}
	data, err := token.Kubeconfig(made, options, server, now)
	if err == nil {
		err = cfg.Place.Write(data)
	}
	if err != nil && known == "" { // the token was not delivered, so it must be deleted
		return errors.Join(err, token.Delete(ctx, secrets, cfg.Stderr, made))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cfg.Stderr, "%s: bootstrap token %s for %s alone\n", cfg.Place.Path, token.ID(made), cfg.Name)
	return err
}

var agentConfig = template.Must(template.New("").Parse(`# /etc/certplane/agent.yaml of {{.Host.Name}}. {{.File}} becomes /etc/certplane/bootstrap.kubeconfig there.
# Then: systemctl enable --now certplane-agent
# or:   certplane agent --config /etc/certplane/agent.yaml
apiVersion: config.certplane.dev/v1alpha1
kind: AgentConfiguration
nodeName: {{.Host.Name}}
bootstrapKubeconfig: /etc/certplane/bootstrap.kubeconfig
certificates:
- signer: {{.Signer}}
  namespace: {{.Host.Namespace}}
  serviceAccount: {{.Host.Name}}
{{- if .Host.DNSNames}}
  dnsNames:
{{- range .Host.DNSNames}}
  - {{printf "%q" .}}
{{- end}}{{end}}
{{- if .Host.IPAddresses}}
  ipAddresses:
{{- range .Host.IPAddresses}}
  - {{printf "%q" .}}
{{- end}}{{end}}
  # tls.crt and tls.key. For another folder, see ReadWritePaths in docs/hosts.md.
  directory: /var/lib/certplane-agent/tls
  # afterRefresh:
  # - command: [systemctl, reload, nginx]
`))

func (cfg Config) printAgent(signer *unstructured.Unstructured) error {
	name, _, err := unstructured.NestedString(signer.Object, "spec", "signerName")
	if err != nil {
		return fmt.Errorf("reading the Signer %s: %w", signer.GetName(), err)
	}
	return agentConfig.Execute(cfg.Stdout, struct {
		Host         Host
		Signer, File string
	}{cfg.Host, name, cfg.Place.Path})
}

// Remove deletes the objects that Add created for the host. The Signer and the namespace
// stay.
func Remove(ctx context.Context, cfg Config) error {
	c, err := cfg.Connect()
	if err != nil {
		return err
	}
	account := cfg.account()
	err = c.Get(ctx, client.ObjectKeyFromObject(account), account)
	if err == nil {
		err = cfg.ours(account)
	}
	if client.IgnoreNotFound(err) != nil {
		return exit.Advise("reading the service account "+cfg.Name, err)
	}
	if err := cfg.grant(ctx, c, true); err != nil {
		return err
	}
	for _, object := range []struct {
		client.Object
		name string
	}{
		{account, "serviceaccount/" + cfg.Name + " in " + cfg.Namespace},
		{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: cfg.Name}}, "node/" + cfg.Name},
	} {
		result := "deleted"
		err := c.Delete(ctx, object.Object)
		if apierrors.IsNotFound(err) {
			result, err = "not there", nil
		}
		if err != nil {
			return exit.Advise("deleting "+object.name, err)
		}
		fmt.Fprintf(cfg.Stderr, "%s %s\n", object.name, result)
	}
	secrets, _, err := cfg.Secrets()
	if err != nil {
		return err
	}
	return token.DeleteForNode(ctx, secrets, cfg.Stderr, cfg.Name)
}
