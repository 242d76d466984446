<?php // Answers with what PHP reads. Run: apt-get install php-cli && php -S 127.0.0.1:8000 cookies.php
echo json_encode($_COOKIE["sid"] ?? null, JSON_INVALID_UTF8_SUBSTITUTE), "\n";
