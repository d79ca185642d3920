package manifests

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"strconv"
	"strings"

	"github.com/certplane/certplane/internal/run/cluster"
)

// inPod completes a configuration for a pod: addresses that are reached from
// outside must not be loopback ones, and the CA is a mounted Secret.
func inPod(of Config) (cluster.Config, error) {
	cfg, defaults := of.Controllers, cluster.DefaultConfig()
	if cfg.ACME.HTTP01.Cluster.SolverImage == "" {
		cfg.ACME.HTTP01.Cluster.SolverImage = of.Image // a process cannot find out its image
	}
	if cfg.Metrics.BindAddress == defaults.Metrics.BindAddress {
		cfg.Metrics.BindAddress = ":8443"
	}
	if cfg.Health.BindAddress == defaults.Health.BindAddress {
		cfg.Health.BindAddress = ":8081"
	}
	if cfg.ServesWebhook() && cfg.Webhook.BindAddress == defaults.Webhook.BindAddress {
		// Where a firewall separates control planes from nodes, this is the one port
		// of pods that they reach (GKE's private clusters): it is kubelet's too.
		cfg.Webhook.BindAddress = ":10250"
	}
	if cfg.LacksCA() {
		cfg.Signing.CA.CertFile, cfg.Signing.CA.KeyFile = caDir+"/tls.crt", caDir+"/tls.key"
	}
	return cfg, check(cfg)
}

// check refuses settings that cannot work in a pod, or would harm other programs.
func check(cfg cluster.Config) error {
	if cfg.ClientConnection.Kubeconfig != "" {
		return errors.New("clientConnection.kubeconfig: a pod uses the service account that it runs as: remove this")
	}
	if cfg.ServesRevocations() {
		return errors.New("revocation.webhook.listen: kube-apiserver asks a webhook on its own host: remove this, and apply the output of \"certplane manifests --revocation-webhook\" also")
	}
	if strings.HasPrefix(cfg.Namespace, "kube-") {
		return fmt.Errorf("namespace: %s is Kubernetes' own, where the restrictions on pods would stop other pods: choose another", cfg.Namespace)
	}
	if err := cfg.CheckLeases(); err != nil {
		return err
	}
	ofField := map[int32]string{}
	for _, at := range listening(cfg) {
		if err := checkReachable(at.field, at.address); err != nil {
			return err
		}
		if other := ofField[port(at.address)]; other != "" {
			return fmt.Errorf("%s: port %d is already used by %s: choose another", at.field, port(at.address), other)
		}
		ofField[port(at.address)] = at.field
	}
	return cfg.Validate()
}

// listens is an address on which a pod listens, and the field that sets it.
type listens struct{ field, address string }

func listening(cfg cluster.Config) []listens {
	all := []listens{{"metrics.bindAddress", cfg.Metrics.BindAddress}, {"health.bindAddress", cfg.Health.BindAddress}}
	if cfg.ServesWebhook() {
		all = append(all, listens{"webhook.bindAddress", cfg.Webhook.BindAddress})
	}
	if cfg.Revocation.ServesLists() {
		all = append(all, listens{"revocation.listen", cfg.Revocation.Listen})
	}
	if cfg.ServesACME() {
		all = append(all, listens{"acmeServer.listen", cfg.ACMEServer.Listen})
		if cfg.ACMEServer.ServesRoots() {
			all = append(all, listens{"acmeServer.rootsListen", cfg.ACMEServer.RootsListen})
		}
	}
	return all
}

func checkReachable(field, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s: %q is not HOST:PORT, which a pod needs", field, address)
	}
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		return fmt.Errorf("%s: %s is not reached from outside of the pod", field, address)
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return fmt.Errorf("%s: port %q is not a number from 1 to 65535", field, port)
	}
	return nil
}

// port returns the port of an address that checkReachable has accepted.
func port(address string) int32 {
	_, text, _ := net.SplitHostPort(address)
	number, _ := strconv.ParseInt(text, 10, 32)
	return int32(number)
}

// configFile returns the configuration as a file with only the values that differ
// from the defaults, so that a later version's defaults apply to the other
// fields.
func configFile(cfg cluster.Config) (string, error) {
	all, err := asMap(cfg)
	if err != nil {
		return "", err
	}
	defaults, err := asMap(cluster.DefaultConfig())
	if err != nil {
		return "", err
	}
	said := difference(all, defaults)
	said["apiVersion"], said["kind"] = cfg.APIVersion, cfg.Kind
	return asYAML(said)
}

// difference returns the part of a map that differs from defaults.
func difference(all, defaults map[string]any) map[string]any {
	said := map[string]any{}
	for key, value := range all {
		stanza, isStanza := value.(map[string]any)
		byDefault, _ := defaults[key].(map[string]any)
		switch {
		case isStanza:
			if below := difference(stanza, byDefault); len(below) > 0 {
				said[key] = below
			}
		case !reflect.DeepEqual(value, defaults[key]):
			said[key] = value
		}
	}
	return said
}
