package interop

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// everythingOfCertManager are the controllers that do the work of cert-manager's controller
// and cainjector.
const everythingOfCertManager = shimControllers + ",cainjector"

// gitOps applies manifests over and over, as a tool does that keeps a cluster as a repository
// says.
type gitOps struct {
	d         *dropIn
	manifests []map[string]any
	rounds    atomic.Int64           // without refusals
	refused   atomic.Int64           // rounds with refusals by a webhook that cannot be called
	refusal   atomic.Pointer[string] // the first one
}

// startGitOps applies manifests once, and then until stop is called.
func (d *dropIn) startGitOps(t *testing.T, manifests []map[string]any) (g *gitOps, stop func()) {
	t.Helper()
	g = &gitOps{d: d, manifests: manifests}
	if refused := g.round(t); refused != "" {
		t.Fatalf("applying the manifests: %s", refused)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			switch refused := g.round(t); {
			case refused == "":
				g.rounds.Add(1)
			case strings.Contains(refused, "failed calling webhook"): // its pods have no network before the test gives it an address
				g.refused.Add(1)
				g.refusal.CompareAndSwap(nil, &refused)
			case ctx.Err() == nil:
				t.Errorf("a manifest is refused: %s", refused)
			}
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return g, stop
}

// round applies each manifest once, and returns the last answer that refuses one.
func (g *gitOps) round(t *testing.T) (refused string) {
	for _, object := range g.manifests {
		name, _ := object["metadata"].(map[string]any)["name"].(string)
		request := g.d.request(t, call{
			method: http.MethodPatch, path: listPath(object) + "/" + name + "?fieldManager=argocd-controller&force=true",
			body: object, contentType: "application/apply-patch+yaml",
		})
		response, err := g.d.client.Do(request)
		if err != nil {
			return err.Error()
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode >= 300 {
			refused = string(body)
		}
	}
	return refused
}

// afterNow waits until all manifests have been applied once more from the first to the last.
func (g *gitOps) afterNow(t *testing.T) {
	t.Helper()
	rounds := g.rounds.Load()
	eventually(t, "the manifests are applied again", func() bool { return g.rounds.Load() >= rounds+2 })
}

// A tool that applies the manifests of the time of cert-manager again and again, while certplane
// takes over and gives back, does not make either of them write or issue.
func TestDropInGitOps(t *testing.T) {
	d := startDropIn(t, everythingOfCertManager)
	users := fleet{ingresses: 50, gateways: 10, listenerSets: 5, certificates: 20}
	controller := d.startFleet(t, users)
	injector := d.startInjected(t)
	manifests := users.objects()
	for i := range injectedObjects {
		manifests = append(manifests, injectedTurn(i)...)
	}
	g, stopGitOps := d.startGitOps(t, manifests)
	stop(t, controller, injector)
	works := func(who string) {
		d.works(t, who)
		d.injects(t, who)
		g.afterNow(t)
	}
	d.thereAndBack(t, slices.Concat(shimKinds, injectedKinds), works,
		func() *process { return d.certManager(t) }, func() *process { return d.cainjector(t) })
	stopGitOps()
	t.Logf("%d manifests were applied %d times; %d rounds had refusals before the webhook could be reached", len(manifests), g.rounds.Load(), g.refused.Load())
}
