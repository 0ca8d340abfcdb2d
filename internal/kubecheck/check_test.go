package kubecheck

import (
	"os"
	"strings"
	"testing"
)

// The manifests are what Kubernetes reads; and each kind of mistake in them is found.
func TestManifests(t *testing.T) {
	b, err := os.ReadFile("../../deploy/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(b); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"an unknown key":        {"terminationGracePeriodSeconds:", "terminationGraceSeconds:"},
		"a key in a wrong case": {"fsGroup:", "fsgroup:"},
		"a misplaced key":       {"        - name: stile\n", "        - name: stile\n          replicas: 1\n"},
		"a wrong type":          {"replicas: 1", "replicas: one"},
		"a wrong size":          {"storage: 10Gi", "storage: ten"},
		"an unknown volume":     {"{name: tmp, mountPath: /tmp}", "{name: temp, mountPath: /tmp}"},
		"an unknown port":       {"ports: [{name: http, containerPort", "ports: [{name: web, containerPort"},
		"another selector":      {"selector: {matchLabels: {app: stile}}", "selector: {matchLabels: {app: other}}"},
		"a service of nothing":  {"  selector: {app: stile}", "  selector: {app: other}"},
		"another version":       {"apiVersion: apps/v1", "apiVersion: apps/v1beta1"},
	} {
		changed := strings.Replace(string(b), change[0], change[1], 1)
		if changed == string(b) {
			t.Errorf("%s: there is no %q", name, change[0])
		} else if err := Check([]byte(changed)); err == nil {
			t.Errorf("%s is not found", name)
		}
	}
}
