package check

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/client/cli/hosts"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// allHosts checks the hosts of agents.
func allHosts(ctx context.Context, c *checker) []Check {
	client, err := kubernetes.NewForConfig(c.Client)
	if err != nil {
		return []Check{failure(err)}
	}
	found, err := hosts.List(ctx, client)
	if err != nil {
		var refused *apierrors.StatusError
		if errors.As(err, &refused) {
			err = refused
		}
		return unread("nodes, pods and the leases of nodes", err)
	}
	if len(found) == 0 {
		return nil
	}
	var bad []Check
	for _, host := range found {
		add := func(result Result, format string, args ...any) {
			bad = append(bad, Check{Result: result, Text: "host " + host.Name + ": " + fmt.Sprintf(format, args...)})
		}
		if !host.IsReady() {
			seen := "never"
			if host.LastSeen != nil {
				seen = print.Ago(c.now, *host.LastSeen)
			}
			add(Failed, "its agent does not report, last seen %s", seen)
			bad[len(bad)-1].Next = []string{"On the host: certplane agent status"}
		}
		for _, cert := range host.Certificates {
			if cert.NotAfter != nil && !cert.NotAfter.After(c.now) {
				add(Failed, "the certificate %s of %s/%s %s", cert.Volume, cert.Namespace, cert.Pod, c.until(*cert.NotAfter))
			}
		}
		if host.Error != "" {
			add(Warning, "%s", host.Error)
		}
	}
	return summed(bad, "%s ready", are(len(found), "host"))
}
