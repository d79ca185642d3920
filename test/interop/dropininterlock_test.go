package interop

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// leasesOfCertManager are the Leases that both programs must hold, in kube-system.
var leasesOfCertManager = []string{"cert-manager-controller", "cert-manager-cainjector-leader-election"}

// leadership is what the API stores about the holder of a Lease.
type leadership struct {
	holder   string
	renewed  time.Time
	duration time.Duration
}

func (d *dropIn) leadership(t *testing.T, lease string) leadership {
	t.Helper()
	got := d.do(t, call{method: http.MethodGet, path: "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + lease})
	if got.Code != http.StatusOK {
		return leadership{}
	}
	spec := got.object(t)["spec"].(map[string]any)
	holder, _ := spec["holderIdentity"].(string)
	renewed, _ := spec["renewTime"].(string)
	seconds, _ := spec["leaseDurationSeconds"].(float64)
	at, err := time.Parse(time.RFC3339Nano, renewed)
	if err != nil {
		t.Fatalf("%s was renewed at %q: %v", lease, renewed, err)
	}
	return leadership{holder, at, time.Duration(seconds) * time.Second}
}

// leads waits until a program holds the Leases.
func (d *dropIn) leads(t *testing.T, ofCertplane bool) {
	t.Helper()
	for _, lease := range leasesOfCertManager {
		eventually(t, "the next program holds "+lease, func() bool {
			holder := d.leadership(t, lease).holder
			return holder != "" && strings.HasPrefix(holder, "certplane-system/") == ofCertplane
		})
	}
}

// workedFor lists the kinds that only the holder of a Lease may write.
var workedFor = slices.Concat([]string{"certificates", "certificaterequests", "secrets"}, injectedKinds)

// onlyOne fails the test unless only the service accounts of one namespace have written what
// belongs to users in this phase, none of them before a time.
func (d *dropIn) onlyOne(t *testing.T, namespace string, notBefore time.Time) {
	t.Helper()
	count := 0
	for _, w := range d.writes(t) {
		kind, _, _ := strings.Cut(w.resource, "/")
		users := w.namespace == "default" || w.namespace == "" && (strings.Contains(w.name, "new-") || strings.Contains(w.name, "injected-"))
		if !slices.Contains(workedFor, kind) || !users {
			continue
		}
		if count++; !strings.HasPrefix(w.user, "system:serviceaccount:"+namespace+":") {
			t.Errorf("%s wrote %s %s (%s) while %s leads", w.user, w.resource, w.name, w.verb, namespace)
		}
		if w.at.Before(notBefore) {
			t.Errorf("%s wrote %s %s (%s) at %s, before %s", w.user, w.resource, w.name, w.verb, w.at, notBefore)
		}
	}
	if count == 0 {
		t.Error("nothing was written")
	}
}

// kill ends programs as a crash would.
func kill(programs ...*process) {
	for _, p := range programs {
		p.kill()
		<-p.ended
	}
}

// Both programs run at once, and hold the same Leases: one of them works, whether the other one
// waits, stops or is killed.
func TestDropInInterlock(t *testing.T) {
	d := startDropIn(t, everythingOfCertManager)
	write(t, d.config, `apiVersion: config.certplane.dev/v1alpha1
kind: ControllersConfiguration
certManager: {clusterResourceNamespace: kube-system}
leaderElection:
  alsoHold:
  - {namespace: kube-system, name: cert-manager-controller}
  - {namespace: kube-system, name: cert-manager-cainjector-leader-election}
`)
	d.apply(t, issuersOfShims+"---"+hookSources)
	start := func() []*process {
		elect := []string{"-lease-namespace", "kube-system"}
		return []*process{d.certManager(t, elect...), d.cainjector(t, elect...)}
	}
	works := func(who string) {
		d.works(t, who)
		d.injects(t, who)
	}
	const cm, ours = "cert-manager", "certplane-system"

	theirs := start()
	d.leads(t, false)
	eventually(t, "cert-manager has issued all", func() bool { return d.ready(t) == 3 })
	d.keysCleaned(t)
	certplane := d.takeOver(t)
	d.begin(t, "a")
	works("a")
	d.onlyOne(t, cm, time.Time{})

	d.begin(t, "b")
	kill(theirs...)
	var free time.Time // when the first of the Leases ends
	for _, lease := range leasesOfCertManager {
		held := d.leadership(t, lease)
		if end := held.renewed.Add(held.duration); free.IsZero() || end.Before(free) {
			free = end
		}
	}
	d.leads(t, true)
	theirs = start()
	works("b")
	d.onlyOne(t, ours, free)

	d.begin(t, "c")
	d.giveBack(t, certplane)
	d.leads(t, false)
	certplane = d.takeOver(t)
	works("c")
	d.onlyOne(t, cm, time.Time{})

	d.begin(t, "d")
	stop(t, theirs...)
	d.leads(t, true)
	theirs = start()
	works("d")
	d.onlyOne(t, ours, time.Time{})

	d.begin(t, "e")
	kill(certplane.process)
	d.deleteWebhooks(t) // nothing answers for them
	d.leads(t, false)
	works("e")
	d.onlyOne(t, cm, time.Time{})
	stop(t, theirs...)
	if n := d.issuances(t); n != 3+3*5 {
		t.Errorf("%d certificates were issued for %d Certificates", n, 3+3*5)
	}
}

// issuances returns how many CertificateRequests there are.
func (d *dropIn) issuances(t *testing.T) int {
	t.Helper()
	return len(d.list(t, "certificaterequests"))
}
