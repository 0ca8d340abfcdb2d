package process

import (
	"os"
	"os/exec"
	"testing"
)

// What a process takes is its own and that of its children, also of those that have ended.
func TestFamily(t *testing.T) {
	before := Family(os.Getpid())
	if own := Of(os.Getpid()).CPUMicros; before < 0 || own < 0 || Family(0) != -1 {
		t.Fatalf("%d, alone %d", before, own)
	}
	for Family(os.Getpid())-Of(os.Getpid()).CPUMicros <= before {
		if err := exec.Command("sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done").Run(); err != nil {
			t.Fatal(err)
		}
	}
}
