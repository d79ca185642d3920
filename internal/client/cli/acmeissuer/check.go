package acmeissuer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/account"
	"github.com/certplane/certplane/internal/acme/solver/dns/resolver"
	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
)

// Result is the result of a check.
type Result string

// The results. After Failed, no certificate would be issued. Warning reports a possible
// obstacle, or a check that could not run.
const (
	OK      Result = "OK"
	Warning Result = "Warning"
	Failed  Result = "Failed"
)

// Check is the result of one check.
type Check struct {
	Name string `json:"name"`
	// Domain is the checked name; empty for a check of the issuer.
	Domain  string `json:"domain,omitempty"`
	Result  Result `json:"result"`
	Message string `json:"message"`
	// Advice is the next step; empty if none is needed.
	Advice string `json:"advice,omitempty"`
}

// Report contains the results of checks, for JSON and YAML.
type Report struct {
	Issuer string `json:"issuer"`
	// Server is the URL of the directory, Account the URL of the account.
	Server  string  `json:"server"`
	Account string  `json:"account,omitempty"`
	Checks  []Check `json:"checks"`
}

// CheckConfig configures a check.
type CheckConfig struct {
	Source
	// Domains are the DNS names and IP addresses to check.
	Domains []string
	// Profile, if not empty, is the Certificate's profile and overrides the issuer's.
	// Labels are the Certificate's labels, for the selectors of solvers.
	Profile string
	Labels  map[string]string
	// Network resolves names and connects to web servers; Resolver queries name servers.
	Network  selfcheck.Network
	Resolver *resolver.Resolver
}

// FailedError reports the number of failed checks.
type FailedError struct{ Count int }

func (e *FailedError) Error() string {
	if e.Count == 1 {
		return "1 check has failed"
	}
	return fmt.Sprintf("%d checks have failed", e.Count)
}

// Run checks whether an issuer could get certificates for names, and writes the results.
// It changes nothing, neither in the cluster nor at the CA. It returns a *FailedError if
// a check fails.
func Run(ctx context.Context, cfg CheckConfig) error {
	f, err := cfg.find(ctx)
	if err != nil {
		return err
	}
	c := &checker{CheckConfig: cfg, found: f}
	if err := c.run(ctx); err != nil {
		return err
	}
	report := Report{Issuer: f.String(), Server: f.issuer.GetSpec().ACME.Server, Account: f.uri(), Checks: c.checks}
	if err := print.Found(cfg.Stdout, cfg.Output, report, report.text); err != nil {
		return err
	}
	failed := 0
	for _, check := range c.checks {
		if check.Result == Failed {
			failed++
		}
	}
	if failed > 0 {
		return &FailedError{failed}
	}
	return nil
}

func (r Report) text() string {
	p := &print.Page{}
	p.Line(r.Issuer + ", " + r.Server)
	rows := make([][]string, 0, len(r.Checks))
	for _, c := range r.Checks {
		rows = append(rows, []string{strings.ToLower(string(c.Result)), c.Name, c.Domain, c.Message})
	}
	p.Section("Checks", rows)
	var advice []string
	for _, c := range r.Checks {
		if c.Advice != "" && !slices.Contains(advice, c.Advice) {
			advice = append(advice, c.Advice)
		}
	}
	if len(advice) > 0 {
		p.Title("Next")
	}
	for _, line := range advice {
		p.Line("  " + line)
	}
	return p.String()
}

// checker runs the checks.
type checker struct {
	CheckConfig
	*found
	checks []Check
	// directory is nil if the server does not answer. account is the URL that the CA
	// returned, otherwise the URL in the status.
	directory *rfc8555.Directory
	account   string
}

func (c *checker) add(name, domain string, result Result, message, advice string) {
	c.checks = append(c.checks, Check{name, domain, result, message, advice})
}

func (c *checker) run(ctx context.Context) error {
	c.account = c.uri()
	c.checkReady()
	client, err := c.client()
	if err != nil {
		c.add("directory", "", Failed, err.Error(), "Correct spec.acme of the issuer.")
	} else {
		c.checkServer(ctx, client)
	}
	for _, domain := range c.Domains {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.checkDomain(ctx, domain)
	}
	return ctx.Err()
}

func (c *checker) checkReady() {
	condition := certmanager.IssuerCondition(c.issuer, cmv1.IssuerConditionReady)
	switch {
	case condition == nil:
		c.add("issuer", "", Warning, "no controller has processed the issuer yet",
			"Issuers are processed immediately where their controllers run: 'certplane serve' or 'certplane controllers'.")
	case condition.Status != cmmeta.ConditionTrue:
		c.add("issuer", "", Failed, fmt.Sprintf("not ready: %s (%s)", condition.Message, condition.Reason), "Fix the issuer: its condition Ready reports what it waits for.")
	default:
		c.add("issuer", "", OK, condition.Message, "")
	}
}

// client returns a client for the issuer's server. Without the account's key it uses a
// new key, which is enough to read the directory.
func (c *checker) client() (*acme.Client, error) {
	key := c.key
	if key == nil {
		var err error
		if key, err = pki.GenerateKey(pki.ECDSAP256); err != nil {
			return nil, err
		}
	}
	return c.accounts.Client(c.issuer, key, c.uri())
}

// checkServer checks the server's directory and the account.
func (c *checker) checkServer(ctx context.Context, client *acme.Client) {
	directory, err := client.Directory(ctx)
	if err != nil {
		c.add("directory", "", Failed, err.Error(), "The server must answer at spec.acme.server; spec.acme.caBundle must contain the roots of its certificate, if they are not public.")
		return
	}
	c.directory = &directory
	text := "the server answers"
	if directory.TermsOfService != "" {
		text += "; its terms of service are at " + directory.TermsOfService
	}
	c.add("directory", "", OK, text, "")
	registered := c.checkAccount(ctx, client)
	c.checkExternal(ctx, registered)
	c.checkProfile()
}

// checkAccount asks the server for the account of the key. It reports whether the account
// exists.
func (c *checker) checkAccount(ctx context.Context, client *acme.Client) bool {
	if c.key == nil {
		result := Failed
		if c.hidden || c.uri() == "" && !c.issuer.GetSpec().ACME.DisableAccountKeyGeneration {
			result = Warning // the controller may read the key, or creates one
		}
		c.add("account", "", result, c.keyErr.Error()+"; the account was not checked", "")
		return c.uri() != ""
	}
	account, err := client.FindAccount(ctx)
	problem := new(rfc8555.Problem)
	switch {
	case errors.As(err, &problem) && problem.HasType(rfc8555.ProblemAccountDoesNotExist):
		if c.uri() == "" {
			c.add("account", "", Warning, "the CA has no account for the key yet; the controller registers one", "")
			return false
		}
		c.add("account", "", Failed, "the CA has no account for the key in the Secret "+c.secret.String(),
			"Was the Secret replaced? Restore the key of the account "+c.uri()+", or let the controller register a new account.")
		return false
	case err != nil:
		c.add("account", "", Failed, "asking the CA for the account: "+err.Error(), "")
		return c.uri() != ""
	case account.Status != "" && account.Status != rfc8555.StateValid:
		c.add("account", "", Failed, fmt.Sprintf("the account %s is %s", account.URL, account.Status), "Give the issuer another spec.acme.privateKeySecretRef: it then gets a new account.")
	case c.uri() != "" && account.URL != c.uri():
		c.add("account", "", Warning, fmt.Sprintf("the account of the key is %s, but the issuer's status has %s", account.URL, c.uri()), "")
	default:
		c.add("account", "", OK, "the CA has the account "+account.URL, "")
	}
	c.account = account.URL
	return true
}

// checkExternal checks the external account, which a new account needs.
func (c *checker) checkExternal(ctx context.Context, registered bool) {
	binding := c.issuer.GetSpec().ACME.ExternalAccountBinding
	result := Failed
	if registered {
		result = Warning // it is needed for the next account only
	}
	switch {
	case binding == nil && c.directory.ExternalAccountRequired:
		c.add("external account", "", result, "the CA requires an external account for new accounts, but the issuer has none", "Set spec.acme.externalAccountBinding: its key identifier and MAC key come from the CA.")
	case binding == nil:
		return
	default:
		c.checkExternalKey(ctx, result, binding.Key)
	}
}

func (c *checker) checkExternalKey(ctx context.Context, result Result, ref cmmeta.SecretKeySelector) {
	name := types.NamespacedName{Namespace: c.secret.Namespace, Name: ref.Name}
	secret := &corev1.Secret{}
	err := c.api.Get(ctx, name, secret)
	advice := fmt.Sprintf("Put the MAC key of the external account, as the CA shows it, under the key %s of the Secret %s.", ref.Key, name)
	switch {
	case apierrors.IsForbidden(err):
		c.add("external account", "", Warning, fmt.Sprintf("you may not get the Secret %s with the MAC key", name), "")
		return
	case err != nil:
		c.add("external account", "", result, fmt.Sprintf("the Secret %s does not exist", name), advice)
		return
	}
	text := strings.TrimSpace(string(secret.Data[ref.Key]))
	if _, err := account.DecodeMAC(text); err != nil || text == "" {
		c.add("external account", "", result, fmt.Sprintf("the Secret %s has no MAC key in base64url under the key %s", name, ref.Key), advice)
		return
	}
	c.add("external account", "", OK, fmt.Sprintf("the MAC key is in the Secret %s", name), "")
}

// checkProfile checks whether the server has the profile.
func (c *checker) checkProfile() {
	profile, where := c.Profile, "--profile"
	if profile == "" {
		profile, where = c.issuer.GetSpec().ACME.Profile, "spec.acme.profile"
	}
	offered := slices.Sorted(maps.Keys(c.directory.Profiles))
	list := strings.Join(offered, ", ")
	switch {
	case profile == "" && list == "":
		c.add("profile", "", OK, "no profile requested, and the CA offers none", "")
	case profile == "":
		c.add("profile", "", OK, "no profile requested; the CA offers "+list, "")
	case list == "":
		c.add("profile", "", Failed, "the CA does not support profiles", "Remove "+where+".")
	case !slices.Contains(offered, profile):
		c.add("profile", "", Failed, fmt.Sprintf("the CA does not have the profile %q", profile), "Correct "+where+": the CA offers "+list+".")
	default:
		c.add("profile", "", OK, fmt.Sprintf("the CA has the profile %q", profile), "")
	}
}
