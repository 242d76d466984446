package redisstore

import "testing"

// Error texts of servers. Not every version or state is available for a test.
func TestKindOfText(t *testing.T) {
	for text, want := range map[string]Kind{
		"LOADING Redis is loading the dataset in memory": KindLoading,
		"CLUSTERDOWN Hash slot not served":               KindClusterDown,
		"CLUSTERDOWN The cluster is down":                KindClusterDown,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.":  KindNotSaved,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":            KindBusy,
		"NOPERM this user has no permissions to run the 'set' command":                                      KindDenied,
		"WRONGPASS invalid username-password pair or user is disabled.":                                     KindDenied,
		"ERR Error running script (call to f_0): @user_script:1: @user_script: 1: -OOM command not allowed": KindOutOfMemory,
		"ERR something about LOADING or -1":                                                                 KindOther,
		"":                                                                                                  KindOther,
	} {
		if got := kindOfText(text); got != want {
			t.Errorf("%q is %q, not %q", text, got, want)
		}
	}
	if !KindClusterDown.Down(Cluster) || KindLoading.Down(Cluster) {
		t.Error("on a cluster only the cluster itself is down")
	}
}
