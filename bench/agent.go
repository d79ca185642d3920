package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// agentResult is the cost of the certificates of all pods of one host.
type agentResult struct {
	// Round is join, when the host also registers itself and its pods, or renew,
	// when it replaces the keys and certificates of pods that are registered.
	Round string `json:"round"`
	// OneWrite means that the create call answers with the certificate.
	OneWrite bool    `json:"oneWrite"`
	Pods     int     `json:"pods"`
	Seconds  float64 `json:"seconds"`
	// cost is the server's for each pod; AgentCPUSeconds is the agent's for all.
	cost
	AgentCPUSeconds float64 `json:"agentCPUSeconds"`
	AgentMemoryMB   float64 `json:"agentMemoryMB"`
}

// measureAgent runs agents of hosts with many pods: each joins, and then has all
// of its certificates issued again, as after a reboot with keys in memory.
func measureAgent(ctx context.Context, s *system, opts options, to *results) error {
	client, err := kubernetes.NewForConfig(s.admin)
	if err != nil {
		return err
	}
	for _, oneWrite := range []bool{false, true} {
		signer := fleetSigner
		if oneWrite {
			signer = oneWriteSigner
		}
		if err := declareSigner(ctx, s.admin, signer, oneWrite); err != nil {
			return err
		}
		h := &host{system: s, opts: opts, node: fmt.Sprintf("bench-%t", oneWrite), signer: signer}
		if err := h.prepare(ctx, client); err != nil {
			return fmt.Errorf("preparing a host: %w", err)
		}
		for _, round := range []string{"join", "renew"} {
			result, err := h.runAgent(ctx, round)
			if err != nil {
				return fmt.Errorf("round %s: %w", round, err)
			}
			result.OneWrite = oneWrite
			to.Agent = append(to.Agent, result)
		}
	}
	return nil
}

// host is a host with an agent.
type host struct {
	*system
	opts         options
	node, signer string
}

func (h *host) path(name string) string { return filepath.Join(h.dir, h.node+"-"+name) }

// hostPodYAML is a pod with one certificate.
const hostPodYAML = `
apiVersion: v1
kind: Pod
metadata: {name: pod-%[1]d}
spec:
  serviceAccountName: default
  volumes:
  - name: tls
    projected:
      sources:
      - podCertificate: {signerName: %[2]s, keyType: ECDSAP256, credentialBundlePath: bundle.pem}
`

// prepare grants the host its rights, and writes the files of its agent.
func (h *host) prepare(ctx context.Context, client kubernetes.Interface) error {
	name := metav1.ObjectMeta{Name: h.node}
	_, err1 := client.RbacV1().Roles(fleetNamespace).Create(ctx, &rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"host"}, APIGroups: []string{corev1.GroupName}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{"default"}},
	}}, metav1.CreateOptions{})
	_, err2 := client.RbacV1().RoleBindings(fleetNamespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: h.node},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "system:node:" + h.node}},
	}, metav1.CreateOptions{})
	if err := errors.Join(err1, err2, os.Mkdir(h.path("manifests"), 0o755)); err != nil {
		return err
	}
	for i := range h.opts.agentPods {
		pod := fmt.Appendf(nil, hostPodYAML, i, h.signer)
		if err := os.WriteFile(filepath.Join(h.path("manifests"), fmt.Sprintf("%d.yaml", i)), pod, 0o644); err != nil {
			return err
		}
	}
	_, err := h.certplane(ctx, "token", "create", "--kubeconfig", filepath.Join("data", "admin.kubeconfig"), "--out", h.path("bootstrap"))
	return err
}

// certplane runs a command in the folder of the server.
func (h *host) certplane(ctx context.Context, args ...string) (*os.ProcessState, error) {
	program, err := filepath.Abs(h.opts.certplane)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = h.dir
	if output, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("certplane %s: %w; it said:\n%s", args[0], err, output[max(0, len(output)-4096):])
	}
	return cmd.ProcessState, nil
}

// runAgent runs the agent until all files exist. They are all removed before.
func (h *host) runAgent(ctx context.Context, round string) (agentResult, error) {
	if err := errors.Join(os.RemoveAll(h.path("volumes")), sleep(ctx, h.opts.settle)); err != nil {
		return agentResult{}, err
	}
	log.Printf("round %s: a host with %d pods", round, h.opts.agentPods)
	var ended *os.ProcessState
	var failed error
	used, err := h.measure(ctx, func() {
		ended, failed = h.certplane(ctx, "agent", "--once", "--timeout", "10m", "--node-name", h.node, "--metrics-bind-address", "0",
			"--bootstrap-kubeconfig", h.path("bootstrap"), "--data-dir", h.path("agent"), "--manifests", h.path("manifests"), "--volumes", h.path("volumes"))
	})
	if err := errors.Join(failed, err); err != nil {
		return agentResult{}, err
	}
	return agentResult{
		Round: round, Pods: h.opts.agentPods, Seconds: used.took.Seconds(), cost: used.each(h.opts.agentPods),
		AgentCPUSeconds: (ended.UserTime() + ended.SystemTime()).Seconds(), AgentMemoryMB: peakMB(ended),
	}, nil
}

func writeAgents(out io.Writer, rounds []agentResult) {
	if len(rounds) == 0 {
		return
	}
	fmt.Fprintln(out)
	for _, r := range rounds {
		steps := "three steps"
		if r.OneWrite {
			steps = "one write"
		}
		fmt.Fprintf(out, "agent, %s, %s: %d pods in %.1f s, with %.1f s of CPU (%.0f MB at most); for each, the server takes %.2f ms of CPU and allocates %.0f KB, %.0f objects.\n",
			r.Round, steps, r.Pods, r.Seconds, r.AgentCPUSeconds, r.AgentMemoryMB, r.ServerCPUMilliseconds, r.AllocatedKB, r.Allocations)
	}
}
