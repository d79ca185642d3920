package check

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/buildinfo"
)

const (
	// patience is the time limit for an answer of the server.
	patience = 5 * time.Second
	// mostAnswer bounds an answer; the metrics are the largest.
	mostAnswer = 32 << 20
	// clockWarning and clockFailed are differences of clocks: the first makes new
	// certificates and tokens invalid on one side, the second all short-lived ones.
	clockWarning = 10 * time.Second
	clockFailed  = 5 * time.Minute
)

// answer is an answer of the server.
type answer struct {
	status int
	body   string
	// behind is the difference by which this machine's clock is behind the server's;
	// unknown is true if the answer contained no time.
	behind  time.Duration
	unknown bool
	serving []*x509.Certificate
	roots   []*x509.Certificate
}

// server checks whether the server can be reached and is ready.
func server(ctx context.Context, c *checker) (checks []Check, reached bool) {
	if c.ClientErr != nil {
		return []Check{failure(c.ClientErr)}, false
	}
	got, err := c.get(ctx, "/version")
	if err != nil {
		return []Check{failure(unreachable(c.Client.Host, err))}, false
	}
	checks = ok("%s answers", c.Client.Host)
	if got.status == http.StatusUnauthorized {
		checks = append(checks, Check{Result: Failed, Text: "the server does not accept your credential", Next: []string{"Get another kubeconfig from the server's administrator."}})
		return append(checks, c.connection(got)...), false
	}
	checks = append(checks, c.skew(got))
	ready := c.ready(ctx)
	return append(append(checks, ready), c.connection(got)...), ready.Result != Failed
}

func failure(err error) Check {
	check := Check{Result: Failed, Text: err.Error()}
	var known *exit.Error
	if errors.As(err, &known) {
		check.Next = known.Next
	}
	return check
}

// unreachable returns the error with the next step.
func unreachable(host string, err error) error {
	doing := "reaching " + host
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		return exit.WithNext(fmt.Errorf("%s: %w", doing, err), "The kubeconfig has another CA than the server: get a new kubeconfig from the server's administrator.")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return exit.WithNext(fmt.Errorf("%s: %w", doing, err), "The server's certificate has expired, or this machine's clock is wrong.")
	}
	return exit.Advise(doing, err)
}

// get reads a path of the server.
func (c *checker) get(ctx context.Context, path string) (answer, error) {
	transport, err := rest.HTTPClientFor(c.Client)
	if err != nil {
		return answer{}, err
	}
	base, _, err := rest.DefaultServerUrlFor(c.Client)
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath(path).String(), nil)
	if err != nil {
		return answer{}, err
	}
	began := c.Now()
	response, err := transport.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	ended := c.Now()
	body, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return answer{}, err
	}
	got := answer{status: response.StatusCode, body: string(body)}
	told, err := http.ParseTime(response.Header.Get("Date"))
	got.unknown = err != nil
	// A date has no fractions of a second: on average it is half a second later.
	got.behind = told.Add(time.Second / 2).Sub(began.Add(ended.Sub(began) / 2))
	if response.TLS != nil {
		got.serving = response.TLS.PeerCertificates
		for _, chain := range response.TLS.VerifiedChains {
			got.roots = append(got.roots, chain[len(chain)-1])
		}
	}
	return got, nil
}

// skew compares the version of the server with that of this program.
func (c *checker) skew(got answer) Check {
	var info apimachineryversion.Info
	if err := json.Unmarshal([]byte(got.body), &info); got.status != http.StatusOK || err != nil || info.GitVersion == "" {
		return Check{Result: NotChecked, Text: "you may not read the version of the server"}
	}
	what := "Kubernetes " + info.GitVersion
	if certplane, is := strings.CutSuffix(info.GitVersion, buildinfo.VersionSuffix); is {
		c.servesCertplane = true
		what = "certplane serve, with the APIs of Kubernetes " + certplane
	}
	libraries := buildinfo.Read().Kubernetes
	own, err := version.ParseSemantic(libraries)
	theirs, theirsErr := version.ParseSemantic(info.GitVersion)
	if err != nil || theirsErr != nil || own.Major() == theirs.Major() && max(own.Minor(), theirs.Minor())-min(own.Minor(), theirs.Minor()) <= 1 {
		return ok("it is %s", what)[0]
	}
	return Check{Result: Warning, Text: fmt.Sprintf("it is %s, and this program is made for %s", what, libraries), Next: []string{"Use a certplane released at about the same time as the server."}}
}

// ready checks the readiness that the server reports.
func (c *checker) ready(ctx context.Context) Check {
	got, err := c.get(ctx, "/readyz")
	switch {
	case err != nil:
		return failure(exit.Advise("asking whether the server is ready", err))
	case got.status == http.StatusOK:
		return ok("it is ready")[0]
	case got.status == http.StatusForbidden:
		return Check{Result: NotChecked, Text: "you may not ask whether the server is ready"}
	}
	var parts []string
	for line := range strings.Lines(got.body) {
		if part, failed := strings.CutPrefix(line, "[-]"); failed {
			parts = append(parts, c.reason(ctx, strings.TrimSpace(part)))
		}
	}
	return Check{Result: Failed, Text: "it is not ready: " + strings.Join(parts, "; "), Next: []string{"See its log. Nothing else is checked until it is ready."}}
}

// reason returns a part of the server that is not ready, with the reason if the caller
// may read it: the server returns it only to callers with the right to get the part's
// path.
func (c *checker) reason(ctx context.Context, part string) string {
	name, _, withheld := strings.Cut(part, " failed: reason withheld")
	if !withheld {
		return part
	}
	got, err := c.get(ctx, "/readyz/"+name)
	if _, reason, told := strings.Cut(got.body, "internal server error: "); err == nil && told {
		return name + ": " + strings.TrimSpace(reason)
	}
	return name
}

// connection checks the clock, and the certificates in the connection.
func (c *checker) connection(got answer) []Check {
	var checks []Check
	if !got.unknown {
		checks = append(checks, clock(got.behind))
	}
	if len(got.serving) > 0 {
		cert := got.serving[0]
		checks = append(checks, Check{
			Result: c.ending(cert.NotBefore, cert.NotAfter), Text: "its certificate " + c.until(cert.NotAfter),
		}.advised("certplane serve replaces its own certificate; a certificate from files must be replaced there."))
	}
	roots := got.roots
	if len(roots) == 0 {
		roots = trusted(c.Client)
	}
	for _, root := range roots {
		checks = append(checks, Check{
			Result: c.ending(root.NotBefore, root.NotAfter), Text: fmt.Sprintf("its CA %s %s", root.Subject, c.until(root.NotAfter)),
		}.advised("Replace the CA, then get new kubeconfigs: see docs/rotate-ca.md."))
	}
	return checks
}

// advised returns the check with the next step, unless its result is OK.
func (c Check) advised(next ...string) Check {
	if c.Result == Warning || c.Result == Failed {
		c.Next = next
	}
	return c
}

func clock(behind time.Duration) Check {
	difference, where := behind.Abs(), "behind"
	if behind < 0 {
		where = "ahead of"
	}
	check := Check{Result: OK, Text: "its clock and this machine's clock agree"}
	if difference >= clockWarning {
		check = Check{Result: Warning, Text: fmt.Sprintf("this machine's clock is %s %s the server's clock", print.Span(difference), where)}
	}
	if difference >= clockFailed {
		check.Result = Failed
	}
	return check.advised("Set the clocks by NTP on both machines.")
}

// trusted returns the CAs of a kubeconfig.
func trusted(config *rest.Config) []*x509.Certificate {
	data := config.CAData
	if len(data) == 0 && config.CAFile != "" {
		data, _ = os.ReadFile(config.CAFile) // the connection has read it
	}
	certs, err := pki.ParseBundle(data)
	if err != nil {
		return nil
	}
	return certs
}
